"""Models behind an OpenAI-compatible server (llama.cpp's, vLLM, Ollama, LM Studio …): `ServerGenerator` and its parts."""
