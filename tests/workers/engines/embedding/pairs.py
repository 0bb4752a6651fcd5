"""Sentences for the meaning of vectors: pairs that say the same, and pairs that share nothing."""

PARAPHRASES = [
    ("The train to Lyon leaves at nine in the morning.", "At 9 a.m. the Lyon train departs."),
    ("She is allergic to peanuts.", "Peanuts give her an allergic reaction."),
    ("How do I reset my password?", "I forgot my password, how can I set a new one?"),
    ("The dog chased the cat up a tree.", "A cat was chased up into a tree by the dog."),
    ("Water boils at one hundred degrees Celsius.", "The boiling point of water is 100 °C."),
    (
        "The company reported record profits this quarter.",
        "This quarter the firm earned more than ever before.",
    ),
    (
        "Please turn off the lights when you leave.",
        "Switch the lights off on your way out, please.",
    ),
    ("He learned to play the violin as a child.", "As a kid he was taught the violin."),
    ("The bridge was closed because of the storm.", "Due to the storm they shut the bridge."),
    ("Bake the bread for forty minutes.", "The loaf needs forty minutes in the oven."),
    ("The vaccine protects against measles.", "You are protected from measles by this vaccine."),
    (
        "My laptop battery runs out too quickly.",
        "The battery of my notebook computer does not last long.",
    ),
    ("The museum is free on Sundays.", "On Sunday you do not have to pay to enter the museum."),
    ("Many birds fly south for the winter.", "In winter a lot of birds migrate to the south."),
    ("The judge dismissed the case.", "The court case was thrown out by the judge."),
    ("I would like to cancel my subscription.", "Please end my subscription."),
    ("The soup is too salty.", "There is too much salt in the soup."),
    (
        "Astronomers discovered a new planet.",
        "A previously unknown planet was found by astronomers.",
    ),
    (
        "The team won the match in the last minute.",
        "A goal in the final minute gave the team the victory.",
    ),
    ("It rained all day yesterday.", "Yesterday the rain did not stop the whole day."),
]

UNRELATED = [
    ("The train to Lyon leaves at nine in the morning.", "There is too much salt in the soup."),
    ("She is allergic to peanuts.", "A previously unknown planet was found by astronomers."),
    ("How do I reset my password?", "In winter a lot of birds migrate to the south."),
    ("The dog chased the cat up a tree.", "This quarter the firm earned more than ever before."),
    ("Water boils at one hundred degrees Celsius.", "The court case was thrown out by the judge."),
    ("The company reported record profits this quarter.", "As a kid he was taught the violin."),
    (
        "Please turn off the lights when you leave.",
        "You are protected from measles by this vaccine.",
    ),
    ("He learned to play the violin as a child.", "The boiling point of water is 100 °C."),
    ("The bridge was closed because of the storm.", "Please end my subscription."),
    (
        "Bake the bread for forty minutes.",
        "The battery of my notebook computer does not last long.",
    ),
    ("The vaccine protects against measles.", "At 9 a.m. the Lyon train departs."),
    ("My laptop battery runs out too quickly.", "A cat was chased up into a tree by the dog."),
    ("The museum is free on Sundays.", "Peanuts give her an allergic reaction."),
    ("Many birds fly south for the winter.", "I forgot my password, how can I set a new one?"),
    ("The judge dismissed the case.", "The loaf needs forty minutes in the oven."),
    ("I would like to cancel my subscription.", "Yesterday the rain did not stop the whole day."),
    ("The soup is too salty.", "A goal in the final minute gave the team the victory."),
    ("Astronomers discovered a new planet.", "Due to the storm they shut the bridge."),
    ("The team won the match in the last minute.", "The chemical symbol of gold is Au."),
    ("It rained all day yesterday.", "Our accountant prefers spreadsheets to paper."),
]
