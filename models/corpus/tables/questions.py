"""How people ask, and the small sentences around an answer. `{a}` is a noun with its article, `{n}` without."""

TRADE_ASKS = [
    "What does {a} do?",
    "What is the work of {a}?",
    "Tell me what {a} does.",
    "Tell me about the work of {a}.",
    "What does {a} do all day?",
    "Explain the job of {a}.",
    "Describe the work of {a}.",
    "Who is {a}?",
    "What is {a}?",
    "How does {a} work?",
    "What is the job of {a}?",
    "Can you tell me what {a} does?",
    "Tell me about {a}.",
]

ANIMAL_ASKS = [
    "Tell me about the {n}.",
    "What do you know about the {n}?",
    "Describe {a}.",
    "What is {a}?",
    "Tell me something about {a}.",
    "How does {a} live?",
    "What is special about the {n}?",
    "Explain what {a} is.",
    "Write a few sentences about {a}.",
    "What can you say about the {n}?",
    "Tell me about {a}.",
    "{n}",
]

HOME_ASKS = [
    "Where does {a} live?",
    "Where do I find {a}?",
    "In what place does {a} live?",
    "Where is the home of the {n}?",
]

FOOD_ASKS = [
    "What does {a} eat?",
    "What do I feed {a}?",
    "What does the {n} like to eat?",
    "What is the food of the {n}?",
]

THING_ASKS = [
    "What is {a} for?",
    "What is {a}?",
    "What is {a} used for?",
    "Explain what {a} is.",
    "Tell me about {a}.",
    "Why do people use {a}?",
    "Describe {a}.",
    "What can I do with {a}?",
    "How does {a} work?",
    "What do you know about the {n}?",
]

PLACE_ASKS = [
    "Describe a {p} {t}.",
    "What does a {p} look like {t}?",
    "Describe the {p} {t}.",
    "Paint a picture of a {p} {t} with words.",
    "Write about a {p} {t}.",
    "Tell me about a {p} {t}.",
    "What do you see in a {p} {t}?",
]

STEP_ASKS = [
    "How do I {t}?",
    "How can I {t}?",
    "Tell me how to {t}.",
    "Explain how to {t}.",
    "I want to {t}.",
    "What is the best way to {t}?",
    "Show me how to {t}.",
    "Can you help me {t}?",
    "Give me steps to {t}.",
    "I need to {t}. What should I do?",
    "How to {t}?",
]

REASON_ASKS = [
    "Why {q}?",
    "Can you explain why {q}?",
    "Tell me why {q}.",
    "Do you know why {q}?",
    "I wonder why {q}.",
    "Explain why {q}.",
]

FEELING_ASKS = [
    "{f}.",
    "{f}",
    "{f}. What should I do?",
    "{f}, what can I do?",
    "{f}. Can you help me?",
    "Hello, {f}.",
    "{f}. Do you have any advice?",
    "Today {f}.",
]
