"""What people write instead: retrieval and an answer in forty lines on rank-bm25 and llama-cpp-python.

python tests/benchmarks/plain_rag.py MODEL.gguf DOCUMENT.txt "QUESTION" [CHUNKS]
"""

import sys

from llama_cpp import Llama
from rank_bm25 import BM25Okapi


def main(model: str, document: str, question: str, n_chunks: str = "5") -> None:
    with open(document, encoding="utf-8") as file:
        words = file.read().split()
    chunks = [" ".join(words[i : i + 300]) for i in range(0, len(words), 300)]

    index = BM25Okapi([chunk.lower().split() for chunk in chunks])
    scores = index.get_scores(question.lower().split())
    best = sorted(sorted(range(len(chunks)), key=lambda i: -scores[i])[: int(n_chunks)])

    context = "\n\n".join(chunks[i] for i in best)
    llama = Llama(model, n_ctx=4096, n_gpu_layers=-1, verbose=False)
    reply = llama.create_chat_completion(
        messages=[
            {"role": "system", "content": "Answer the question from the passages, in a few words."},
            {"role": "user", "content": f"{context}\n\nQuestion: {question}"},
        ],
        max_tokens=64,
        temperature=0,
    )
    print(reply["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(*sys.argv[1:])
