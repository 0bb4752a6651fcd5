"""The text both models learn from: generated stories, answers, dialogues, forms and tool calls, drawn by a `random.Random` that is passed in.

The package owns the words and knows nothing of tokens or models. Law: the held-out split shares no dialogue with the
training split, and no user turn contains one of the reserved prompts.
"""

from models.corpus.split import Split, draw_split, text_of
from models.corpus.talk import LICENCE, draw_passage, draw_talk
from models.corpus.turns import Passage, Talk, Turn

__all__ = [
    "LICENCE",
    "Passage",
    "Split",
    "Talk",
    "Turn",
    "draw_passage",
    "draw_split",
    "draw_talk",
    "text_of",
]
