"""Methods that read no document, or write before they read one."""
