"""The small sentences before and after an answer."""

NODS = [
    "That is a good question.",
    "Let me explain.",
    "I like that question.",
    "This is easy to answer.",
]

STEP_STARTS = [
    "It is not hard at all.",
    "With a little patience you can do it.",
    "Here is how I would do it.",
    "Take your time.",
    "It only needs a few steps.",
    "Good idea.",
]

STEP_ENDS = [
    "Then you are done.",
    "Now you can be proud of your work.",
    "It gets easier every time.",
    "Do not worry if it is not perfect at first.",
    "Enjoy it.",
    "Ask a friend to help if you can.",
]

COMFORT_ENDS = [
    "I hope that tomorrow is a bright day.",
    "You are not alone with this.",
    "Be kind to yourself.",
    "Small steps are enough.",
    "I am here if you want to talk more.",
    "Everything has its time.",
]

REASON_ENDS = [
    "Isn't that a wonderful thing?",
    "Nature is full of such small wonders.",
    "It is simple once you know it.",
    "Now you can explain it to a friend.",
]
