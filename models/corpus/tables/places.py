"""Places and times of day or year, and what one sees there."""

# place: details
PLACES: dict[str, tuple[str, str, str, str]] = {
    "forest": (
        "tall trees stand close together",
        "soft moss covers the stones",
        "a small stream runs between the roots",
        "a bird calls from somewhere above",
    ),
    "village": (
        "the houses stand around a stone well",
        "smoke rises from the chimneys",
        "children run along the narrow street",
        "an old woman feeds the pigeons",
    ),
    "beach": (
        "the waves roll over the sand",
        "white shells lie in a long line",
        "a fishing boat rests on its side",
        "gulls cry in the wind",
    ),
    "city": (
        "the streets are full of people",
        "bright signs hang over the shops",
        "a bus stops at the corner",
        "music comes from an open window",
    ),
    "farm": (
        "hens walk through the yard",
        "a red barn stands beside the field",
        "a dog sleeps in front of the door",
        "the smell of hay is in the air",
    ),
    "mountain": (
        "grey rocks rise into the clouds",
        "a narrow path leads up to a hut",
        "goats climb along the edge",
        "the valley below looks like a toy",
    ),
    "garden": (
        "roses climb up the wall",
        "a wooden bench stands under a pear tree",
        "bees visit every flower",
        "a cat watches from the fence",
    ),
    "market": (
        "the tables are covered with fruit",
        "a man sells fresh bread",
        "people talk and laugh",
        "a girl plays the violin beside the fountain",
    ),
    "library": (
        "the shelves reach up to the ceiling",
        "a lamp shines on each table",
        "someone turns a page",
        "dust dances in the light",
    ),
    "harbour": (
        "ropes and nets lie on the stones",
        "large ships wait for the tide",
        "a bell rings on the water",
        "it smells of salt and fish",
    ),
    "desert": (
        "yellow sand goes on in every direction",
        "the wind draws lines on the hills",
        "a camel walks slowly toward the well",
        "not a single tree gives shade",
    ),
    "lake": (
        "the water is as smooth as glass",
        "tall reeds grow along the shore",
        "a swan swims past the old pier",
        "a small boat is tied to a post",
    ),
    "kitchen": (
        "a pot sings on the stove",
        "the table is white with flour",
        "herbs hang from the ceiling",
        "a clock ticks on the wall",
    ),
    "train station": (
        "travellers wait with their bags",
        "a voice reads out the next train",
        "two friends meet and embrace",
        "the rails shine under the lamps",
    ),
}

TIMES: dict[str, tuple[str, str]] = {
    "in winter": ("The air is cold and clear", "Snow lies over everything"),
    "in spring": ("The first flowers are open", "A mild wind brings the smell of rain"),
    "in summer": ("The sun is warm and the day is long", "The heat makes everybody slow"),
    "in autumn": ("Red and yellow leaves are in the air", "A thin fog hangs over the ground"),
    "at night": ("The moon gives a silver light", "Only a few lamps are still lit"),
    "in the morning": ("The sun has just come up", "Everything is fresh and quiet"),
    "in the rain": (
        "Drops run down and form little streams",
        "Everything shines in the grey light",
    ),
    "in the evening": (
        "The sky is orange and the shadows are long",
        "The day is slowly coming to an end",
    ),
}
