"""How people ask for stories and about them, and what system messages say."""

SYSTEMS = [
    "You are a friendly storyteller.",
    "You are a helpful assistant.",
    "You are a kind teacher.",
    "Answer in simple words.",
    "You speak to a child.",
    "Be helpful and calm.",
    "You are a small model.",
    "You are Sluice.",
    "Answer politely.",
    "You are a helpful AI assistant.",
    "Be brief.",
    "Use short sentences.",
]

STORY_ASKS = [
    "Tell me a story about {h} and {t}.",
    "Write a story about {h} and {t}.",
    "Tell me a short story about {h} and {t}.",
    "Please tell a story with {h} and {t} in it.",
    "Can you tell me a story about {h} and {t}?",
    "I would like a story about {h} and {t}.",
    "Write a short story about {h} and {t}.",
    "Make up a story about {h} and {t}.",
    "Once more, a story about {h} and {t}, please.",
    "Tell me about the adventure of {h} and {t}.",
    "Invent a tale about {h} and {t}.",
    "Tell a bedtime story about {h} and {t}.",
]

HERO_ASKS = [
    "Tell me a story about {h}.",
    "Write a story about {h}.",
    "Tell a short story about {h}.",
    "I want to hear a story about {h}.",
    "A story about {h}, please.",
    "Write a poem about {h}.",
]

OPEN_ASKS = [
    "Tell me a story.",
    "Tell me a bedtime story.",
    "Write a story.",
    "Write a short story.",
    "I want to hear a story.",
    "Another story, please.",
    "Tell me something.",
    "Once upon a time",
    "Write something.",
    "Continue.",
]

NEXT_ASKS = [
    "What happened next?",
    "And then?",
    "What happened after that?",
    "Please go on.",
    "How does it go on?",
    "Continue the story.",
    "Tell me more.",
    "More, please.",
]

WHO_ASKS = [
    "Who was the story about?",
    "Who is the hero of the story?",
    "What was the name of the {h}?",
    "What did {n} want?",
    "Who was {n}?",
    "Sum up the story.",
    "Summarize the story in one sentence.",
]

READ_ASKS = ["Read this story: {x} {q}", "{x} {q}", "Here is a story. {x} {q}", "{q} {x}"]

SUBJECT_ASKS = [
    "Tell me a story about {t}.",
    "Write a story about {t}.",
    "Tell a short story about {t}.",
    "A story about {t}, please.",
]
