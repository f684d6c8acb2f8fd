"""Files on the disk: the user's folders, whole-or-nothing writes, the cache, files of arrays, the configuration file."""
