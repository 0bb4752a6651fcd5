"""The twenty fixed prompts of the record. None is part of a user turn in the training text."""

PROMPTS = (
    "Tell me a story about a fox and a river.",
    "Write a short story about a baker and a dragon.",
    "Tell me a story about a girl and a lighthouse.",
    "Make up a story about an owl and the moon.",
    "Please tell a story with a sailor and a map in it.",
    "Can you tell me a story about a soldier and a robot?",
    "I would like a story about an elephant and a violin.",
    "What does a baker do?",
    "Explain the job of a firefighter.",
    "What does a librarian do all day?",
    "Tell me about the owl.",
    "How does a beaver live?",
    "What is a compass used for?",
    "Describe a forest in winter.",
    "What does a harbour look like at night?",
    "How do I make tea?",
    "Tell me how to plant a tree.",
    "Why is the sky blue?",
    "I feel sad today. What should I do?",
    "Hello, my friend!",
)
