"""Text for a server, without what its tokenizer would take for a marker of a turn.

A server puts a message into the model's chat format and then reads the whole as text with markers. So a document that holds
`<|im_end|>` could end the user's turn and begin one of its own. (Models of this machine are not concerned: `LlamaGenerator` reads
the words of a turn as words.)
"""

from __future__ import annotations

import re

# What the chat formats of today's models are made of. Names without an underscore are listed, since <p> and [1] are no markers.
_ANGLED = "s|bos|eos|pad|unk|mask|sep|cls|think|thinking|answer|sop|eop|sot|eot|eod|sys|role|user|assistant|system|human|bot"
_SQUARE = "INST|SYS|IMG|PREFIX|MIDDLE|SUFFIX|ARGS|THINK|AUDIO|REF|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS"
_MARKER = re.compile(
    r"<(?=/?[|｜][^<>\s]{0,80}>)"  # <|im_end|>, <｜User｜>, <|turn>
    r"|<(?=/?[^<>\s]{1,80}[|｜]>)"  # <turn|>
    r"|<(?=/?[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+[^<>\s]{0,40}>)"  # <start_of_turn>, <BOS_TOKEN>, <extra_id_0>
    rf"|<(?=/?(?i:{_ANGLED})>)"  # </s>
    r"|<(?=/?seed:[^<>\s]{1,40}>)"  # <seed:eos>
    r"|<(?=</?SYS>>)"
    rf"|\[(?=/?(?:{_SQUARE}|[A-Z]+(?:_[A-Z\d]+)+)\])"  # [/INST], [TOOL_CALLS], [UNUSED_TOKEN_145]
    r"|\[(?=\|[^\[\]\s]{1,40}\|\])"  # [|endofturn|]
    r"|>(?=>[A-Z]{2,40}<<)"  # >>QUESTION<<
    r"|\](?=~!?b[\[\]])|\[(?=e~\[)"  # ]~b], [e~[
)


def defused(text: str) -> str:
    """Return `text` with a space after the first character of each marker: `< |im_end|>` reads alike, and is no marker."""
    return _MARKER.sub(lambda found: f"{found.group()} ", text)
