"""Questions that begin with why, and their reasons."""

# question after `why`: (the same as a statement, first sentences, second sentences); one of each makes an answer
REASONS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "is the sky blue": (
        "the sky is blue",
        (
            "Sunlight is made of many colours, and the air scatters blue more than the others.",
            "The air spreads the blue part of the sunlight in all directions.",
        ),
        (
            "So blue light reaches our eyes from every side.",
            "In the evening the light takes a longer way, and then we see red.",
        ),
    ),
    "does it rain": (
        "it rains",
        (
            "The sun warms the sea, and some of the water rises into the air.",
            "Warm air carries tiny drops of water up into the sky.",
        ),
        (
            "High up it is cold, so the drops join and fall as rain.",
            "When the clouds are too heavy, the water comes down again.",
        ),
    ),
    "do leaves fall in autumn": (
        "leaves fall in autumn",
        (
            "In autumn there is less light, so the tree stops feeding its leaves.",
            "A tree cannot get much water from the frozen ground.",
        ),
        (
            "It lets the leaves go and rests until spring.",
            "Without leaves it loses less water in the winter.",
        ),
    ),
    "do birds fly south": (
        "birds fly south",
        (
            "In winter there are few insects and seeds to eat in the north.",
            "Many birds cannot find food when the ground is covered with snow.",
        ),
        (
            "They fly to warm lands and come back in the spring.",
            "So they follow the sun and travel for thousands of miles.",
        ),
    ),
    "do we sleep": (
        "we sleep",
        (
            "While we sleep, the body repairs itself and the mind puts its memories in order.",
            "The body and the mind both need a time of rest.",
        ),
        (
            "After a good night we can think and move much better.",
            "Without sleep we become slow, sad and forgetful.",
        ),
    ),
    "is the sea salty": (
        "the sea is salty",
        (
            "Rain washes tiny bits of salt out of the rocks, and rivers carry it to the sea.",
            "Rivers bring a little salt from the land day after day.",
        ),
        (
            "The water rises into the air again, but the salt stays behind.",
            "This has gone on for a very long time, so there is a lot of it.",
        ),
    ),
    "do cats purr": (
        "cats purr",
        (
            "A cat often purrs when it feels safe and warm.",
            "Cats make this sound with a small muscle in the throat.",
        ),
        (
            "Sometimes it also purrs to calm itself when it is ill.",
            "A mother uses it to tell her kittens that she is near.",
        ),
    ),
    "do boats float": (
        "boats float",
        (
            "A boat is hollow, so it is lighter than the water that it pushes away.",
            "Water pushes up on everything that is put into it.",
        ),
        (
            "If too much water gets in, the boat becomes heavy and sinks.",
            "As long as the boat is light for its size, it stays on top.",
        ),
    ),
    "do we eat": (
        "we eat",
        (
            "Food gives the body the energy to move, grow and stay warm.",
            "The body needs food in the same way a fire needs wood.",
        ),
        (
            "Different foods help in different ways, so it is good to eat many kinds.",
            "Fruit, bread, vegetables and beans each do their own part.",
        ),
    ),
    "do bees make honey": (
        "bees make honey",
        (
            "Bees make honey so that they have food for the winter.",
            "In the cold months there are no flowers, and the bees must eat something.",
        ),
        (
            "A hive often makes more than it needs, and people collect the rest.",
            "They carry sweet juice home and let it dry until it is thick.",
        ),
    ),
    "does the moon change its shape": (
        "the moon changes its shape",
        (
            "The moon itself does not change, but we see a different part of its bright side.",
            "The sun lights only one half of the moon, and the moon goes around the earth.",
        ),
        (
            "After about a month the same shape comes back.",
            "That is why it looks round one week and thin the next.",
        ),
    ),
    "is snow white": (
        "snow is white",
        (
            "Snow is made of tiny clear crystals that send the light in all directions.",
            "Each flake is clear, but it breaks up the light like a small mirror.",
        ),
        (
            "All the colours come back to us together, and together they look white.",
            "When all colours are mixed, our eyes see white.",
        ),
    ),
    "do people tell stories": (
        "people tell stories",
        (
            "Stories help us remember what is important.",
            "With a story we can feel what another person feels.",
        ),
        (
            "They also make long evenings short.",
            "A good one lets us try out a life that is not our own.",
        ),
    ),
    "do we need trees": (
        "we need trees",
        (
            "Trees clean the air and give us shade.",
            "Trees take in old air and give us fresh air to breathe.",
        ),
        (
            "Their roots hold the soil, and many animals live in their branches.",
            "They also give us fruit, wood and a quiet place to rest.",
        ),
    ),
    "do clocks tick": (
        "clocks tick",
        (
            "Inside a clock a small wheel is stopped and set free again many times.",
            "A tiny part in the clock swings back and forth.",
        ),
        (
            "Each time it moves, it makes the little sound that we hear.",
            "The sound is the clock counting the seconds.",
        ),
    ),
    "do dogs bark": (
        "dogs bark",
        (
            "Dogs bark to warn, to greet and to ask for something.",
            "A bark is the way a dog speaks to its family.",
        ),
        (
            "The sound can be high when it is happy and low when it is afraid.",
            "If you listen well, you can learn what each bark means.",
        ),
    ),
    "do stars shine": (
        "stars shine",
        (
            "A star is a giant ball of hot gas that makes its own light.",
            "Deep inside a star there is so much heat that it glows.",
        ),
        (
            "It is so far away that it looks like a small point.",
            "Its light travels for many years before we see it.",
        ),
    ),
    "should I drink water": (
        "I should drink water",
        (
            "Most of your body is water, and you lose some of it all day long.",
            "Water carries food through the body and keeps it cool.",
        ),
        (
            "A few glasses a day keep your head clear and your skin soft.",
            "If you drink too little, you will soon feel tired.",
        ),
    ),
    "do we have seasons": (
        "we have seasons",
        (
            "The earth leans to one side while it travels around the sun.",
            "For half of the year our part of the earth leans toward the sun.",
        ),
        (
            "So we get long warm days in summer and short cold days in winter.",
            "That is why the days grow longer and shorter.",
        ),
    ),
    "is it good to share": (
        "it is good to share",
        (
            "When we share, both people have something to be happy about.",
            "A thing that is shared can help two people and not only one.",
        ),
        (
            "The friend who gets some bread today may bring some tomorrow.",
            "It also shows others that we trust them.",
        ),
    ),
    "do wheels help us": (
        "wheels help us",
        (
            "A wheel rolls over the ground and does not have to be dragged.",
            "Dragging a heavy load is hard because the ground holds it back.",
        ),
        (
            "So even a child can move a cart full of stones.",
            "With wheels the same work takes much less strength.",
        ),
    ),
    "is fire hot": (
        "fire is hot",
        (
            "Fire sets free the energy that is stored in the wood.",
            "When wood burns, it joins with the air and gives off heat.",
        ),
        (
            "We feel it as warmth and see it as light.",
            "That is why we must never touch it and always watch it.",
        ),
    ),
}
