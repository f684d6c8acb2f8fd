"""Models behind an OpenAI-compatible server (llama.cpp, vLLM, Ollama, LM Studio …): `ServerGenerator` and its parts."""
