"""llama.cpp through its low-level API. Only modules of this package import llama_cpp."""
