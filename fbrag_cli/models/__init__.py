"""Models: the catalog, the store of files, their checks and downloads. Nothing here loads a model."""
