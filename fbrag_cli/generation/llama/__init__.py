"""llama.cpp through its low-level API. Only modules of this home import llama_cpp."""
