"""What is kept on the disk: places, whole writes, the cache, array files, the configuration file."""
