"""Bytes of a text become characters: by the encoding that is marked, declared, valid or guessed."""
