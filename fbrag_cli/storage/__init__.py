"""Files on disk: the user's folders, atomic writes, the cache, files of arrays, the configuration file."""
