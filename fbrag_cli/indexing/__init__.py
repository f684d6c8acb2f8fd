"""Files and folders become a `Collection`: which files there are, who reads them, and where their index is cached."""
