"""What stories can be about: for each subject two wishes, their two troubles and their two ways out.

In every clause `{n}` is the hero's name, `{s}`/`{o}`/`{p}` the pronouns (she, her, her) and `{f}` the friend.
Tables only. Text written for this project, CC0-1.0.
"""

Plot = tuple[tuple[str, str], tuple[str, str], tuple[str, str]]

PLOTS: dict[str, Plot] = {
    "river": (
        (
            "wanted to cross the wide river",
            "dreamed of the green grass on the other side of the river",
        ),
        ("the water was cold and fast", "there was no bridge and no boat"),
        (
            "{f} showed {o} a row of flat stones, and {s} stepped from one to the next",
            "{n} pushed an old log into the stream and floated across",
        ),
    ),
    "hill": (
        ("wanted to stand on top of the steep hill", "asked what could be seen from the hill"),
        ("the path was long and full of rocks", "the wind pushed {o} back at every step"),
        (
            "{s} rested at each turn and then walked on",
            "{f} took {p} hand, and they climbed together",
        ),
    ),
    "forest": (
        ("went into the forest to look for berries", "wanted to see the oldest tree in the forest"),
        ("every path looked the same", "the trees hid the sun and {s} lost {p} way"),
        (
            "{s} followed the sound of a stream back home",
            "{f} called from far away, and {s} walked toward the voice",
        ),
    ),
    "lake": (
        ("wanted to swim in the silver lake", "went to the lake to catch a fish for supper"),
        ("a thick fog lay over the water", "the little boat had a hole in it"),
        (
            "{s} waited on the shore until the sun came through",
            "{f} brought some wax, and they closed the hole",
        ),
    ),
    "bridge": (
        (
            "had to cross the old bridge to visit {p} aunt",
            "wanted to repair the bridge before the winter",
        ),
        ("three boards were missing", "the bridge shook with every step"),
        (
            "{s} found new boards in the barn and nailed them down",
            "{f} held the rope while {s} walked slowly across",
        ),
    ),
    "garden": (
        (
            "wanted to grow the largest pumpkin in the garden",
            "planted a little garden behind the house",
        ),
        ("it did not rain for many weeks", "hungry birds ate the young leaves"),
        (
            "{s} carried water from the well each evening",
            "{f} helped {o} make a funny man of straw",
        ),
    ),
    "cave": (
        ("heard a strange song from the cave", "wanted to know what was inside the cave"),
        (
            "it was so dark that {s} could not see {p} own feet",
            "a deep voice said that nobody may come in",
        ),
        (
            "{f} lit a lamp, and they found a little bat that was singing",
            "{s} spoke kindly, and the voice turned out to be only an echo",
        ),
    ),
    "market": (
        ("went to the market to sell a basket of apples", "wanted to buy a gift at the market"),
        ("nobody stopped to look", "{s} dropped {p} purse in the crowd"),
        (
            "{s} gave one apple to a child, and soon everybody wanted some",
            "{f} found the purse under a table",
        ),
    ),
    "lighthouse": (
        (
            "took care of the lighthouse on the rocks",
            "wanted to see the light at the top of the lighthouse",
        ),
        (
            "one night the lamp went out in a storm",
            "there were two hundred steps and the door was stuck",
        ),
        (
            "{s} held up a fire of dry wood until the ships were safe",
            "{f} pushed the door with {o}, and they climbed up to the light",
        ),
    ),
    "sea": (
        ("wanted to see the sea for the first time", "looked for a white shell by the sea"),
        ("the road to the shore was very long", "a great wave washed all the shells away"),
        (
            "a kind driver let {o} ride on a cart",
            "{f} dug in the wet sand and found one more shell",
        ),
    ),
    "island": (
        ("sailed to a small island", "drew a picture of an island that nobody knew"),
        ("a storm broke the sail", "everybody said that there was no such island"),
        ("{s} made a new sail out of a blanket", "{f} believed {o}, and one morning they found it"),
    ),
    "tower": (
        ("wanted to ring the bell in the tower", "saw a light at the top of the old tower"),
        ("the stairs were broken", "the door had no handle"),
        ("{s} climbed up a strong green vine", "{f} lifted {o} up to an open window"),
    ),
    "mill": (
        ("worked in the mill by the stream", "brought a sack of corn to the mill"),
        ("the great wheel stopped turning", "mice had made a hole in the sack"),
        ("{s} pulled an old branch out of the wheel", "{f} sewed up the hole with a strong thread"),
    ),
    "well": (
        ("went to the well to fetch water", "looked into the well and saw a star"),
        ("the bucket fell to the bottom", "the rope was too short"),
        (
            "{s} tied a hook to a string and pulled the bucket up",
            "{f} gave {o} a belt to make the rope longer",
        ),
    ),
    "school": (
        ("went to school for the first time", "wanted to learn to read at school"),
        ("{s} did not know anybody", "the letters danced in front of {p} eyes"),
        (
            "{f} moved over and shared a chair",
            "{s} learned one letter every day until they made words",
        ),
    ),
    "lantern": (
        ("found an old lantern in the barn", "carried a lantern through the dark woods"),
        ("it did not want to burn", "the wind blew the flame out"),
        ("{s} cleaned the glass and gave it new oil", "{f} kept the wind away with a coat"),
    ),
    "kite": (
        ("made a blue kite out of paper", "wanted to fly the highest kite of all"),
        ("the string was caught in a tree", "there was no wind for a whole week"),
        (
            "{f} climbed the tree and set it free",
            "{s} waited, and on Sunday a fresh breeze came over the hill",
        ),
    ),
    "boat": (
        ("built a little boat", "wanted to sail a boat to the far shore"),
        ("the boat turned in circles", "water came in through the floor"),
        ("{s} made an oar from a flat board", "{f} took a cup and threw the water out"),
    ),
    "drum": (
        ("got a red drum as a gift", "loved to play the drum"),
        ("the neighbours said it was too loud", "the skin of the drum had a tear"),
        ("{s} learned to play it as softly as rain", "{f} mended it with a piece of leather"),
    ),
    "key": (
        ("found a golden key in the grass", "had a key but did not know its door"),
        ("it did not fit any door in the village", "one day it slipped out of {p} pocket"),
        (
            "{s} tried the little box under {p} bed, and it opened",
            "{f} saw something shine beside the road",
        ),
    ),
    "letter": (
        ("wrote a long letter to {p} grandmother", "got a letter without a name"),
        ("the wind carried it away", "the rain had washed off half of the words"),
        ("{s} ran after it and caught it by the fence", "{f} helped {o} guess the missing words"),
    ),
    "bell": (
        ("was asked to ring the village bell", "wanted to hear the great bell sing"),
        ("the bell made no sound at all", "the rope was far too high"),
        (
            "{s} found a bird's nest inside and moved it to a tree",
            "{f} stood on a chair and passed the rope down",
        ),
    ),
    "map": (
        ("found an old map in a book", "drew a map of the whole valley"),
        ("one corner of it was missing", "rain fell on it, and the colours ran together"),
        (
            "{s} asked the oldest woman in the village what had been there",
            "{f} remembered every road, and they drew it again",
        ),
    ),
    "hat": (
        ("had a green hat that {s} loved", "wanted a warm hat for the winter"),
        ("a strong wind took it over the roofs", "wool was too dear that year"),
        (
            "{s} found it on the head of a snowman",
            "{f} gave {o} an old scarf, and they made a hat from it",
        ),
    ),
    "clock": (
        ("had a clock that was always late", "took care of the town clock"),
        ("everybody missed the morning train", "a spider had made its home in the wheels"),
        (
            "{s} turned a tiny screw, and it was right again",
            "{f} carried the spider gently out to the garden",
        ),
    ),
    "book": (
        ("found a book with empty pages", "wanted to read the largest book in the library"),
        ("nobody could say who had written it", "it stood on the highest shelf"),
        (
            "{s} took a pen and wrote the story of {p} own village",
            "{f} held the ladder, and they read it side by side",
        ),
    ),
    "seed": (
        ("planted a tiny seed", "was given a seed that nobody knew"),
        ("for many weeks nothing came up", "the frost came early"),
        (
            "{s} kept watering it until a green tip came out",
            "{f} covered the soil with straw to keep it warm",
        ),
    ),
    "violin": (
        ("wanted to play the violin", "found a dusty violin on a shelf"),
        ("the first notes sounded like a sick cat", "one string was broken"),
        ("{s} practised every evening until it sang", "{f} brought a new string from the city"),
    ),
    "mirror": (
        ("looked into a strange mirror", "bought a mirror at the fair"),
        ("it showed only sad faces", "it had a long crack"),
        (
            "{s} smiled at it for a whole day, and then it smiled back",
            "{f} put it by the window, and the crack made rainbows",
        ),
    ),
    "blanket": (
        ("made a blanket out of many colours", "had a blanket that was warm and red"),
        ("there was not enough wool for the last corner", "{s} met a child who was cold"),
        ("{f} gave some wool from an old sock", "{s} cut it in two, and then both were warm"),
    ),
    "moon": (
        ("wanted to touch the moon", "wished to say good night to the moon"),
        ("no ladder was long enough", "clouds covered the whole sky"),
        (
            "{s} saw it in a bowl of water and touched it there",
            "{f} waited with {o} until the clouds went away",
        ),
    ),
    "star": (
        ("saw a star fall behind the hill", "wanted to give a name to a star"),
        ("the hill was far away and the night was cold", "there were too many of them to choose"),
        (
            "{s} walked until morning and found a shining stone",
            "{f} pointed at the smallest one, and they named it together",
        ),
    ),
    "storm": (
        ("was alone at home when a storm came", "was out on the road when a storm began"),
        (
            "the thunder was as loud as a hundred drums",
            "the rain fell so hard that {s} could not see",
        ),
        (
            "{s} sang a song at every clap of thunder",
            "{f} opened the door of a barn and called {o} in",
        ),
    ),
    "snow": (
        ("woke up and saw the first snow", "wanted to build a house of snow"),
        ("the snow had covered the road to town", "the walls kept falling down"),
        (
            "{s} put boards under {p} shoes and walked on top of it",
            "{f} showed {o} how to press the snow into blocks",
        ),
    ),
    "rainbow": (
        ("wanted to find the end of the rainbow", "tried to paint a rainbow"),
        ("it moved away each time {s} came near", "there was no purple paint left"),
        (
            "{s} gave up the chase and found a lovely valley on the way",
            "{f} mixed some red with a little blue",
        ),
    ),
    "train": (
        ("wanted to ride on a train", "waited for the evening train"),
        ("a tree had fallen on the tracks", "{s} had lost {p} ticket"),
        (
            "{s} waved a red scarf, and the train stopped in time",
            "{f} had two tickets and gave {o} one",
        ),
    ),
    "bread": (
        ("wanted to bake bread for the whole village", "smelled fresh bread from far away"),
        ("the dough did not rise", "there was only a handful of flour"),
        (
            "{s} put the bowl in the sun and waited",
            "{f} knocked at every door, and each house gave a spoon of flour",
        ),
    ),
    "apple tree": (
        ("took care of an old apple tree", "wanted the highest apple on the apple tree"),
        ("it had given no fruit for years", "the branch was much too thin"),
        (
            "{s} told it stories every night, and in spring it bloomed",
            "{f} shook the tree gently, and the apple fell into {p} hands",
        ),
    ),
    "robot": (
        ("built a robot out of old pots", "found a broken robot beside the road"),
        ("it could only walk backward", "its battery was empty"),
        (
            "{s} turned two wires around, and then it walked straight",
            "{f} brought a small wheel that turned in the wind and made power",
        ),
    ),
    "dragon": (
        ("heard that a dragon lived on the mountain", "wanted to make friends with a dragon"),
        (
            "everybody else was afraid of it",
            "the dragon had a terrible cold and could not stop coughing",
        ),
        (
            "{s} brought it a cake, and it cried with joy",
            "{f} boiled some tea with honey, and the dragon felt better",
        ),
    ),
    "treasure": (
        ("set out to find a treasure", "dreamed of a treasure under the oak"),
        ("the ground was as hard as stone", "the clues were written in an old language"),
        (
            "{s} dug for three days and found a box of old toys",
            "{f} knew the old words and read them aloud",
        ),
    ),
    "castle": (
        ("wanted to see the castle on the cliff", "lived in a castle with a hundred rooms"),
        ("the gate was closed at night", "it was far too quiet there"),
        (
            "{s} sang below the window until someone let {o} in",
            "{f} invited the whole village to a feast",
        ),
    ),
}
