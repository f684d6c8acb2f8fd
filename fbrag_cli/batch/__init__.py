"""Many questions on many documents: jobs, and the rows that become of them."""
