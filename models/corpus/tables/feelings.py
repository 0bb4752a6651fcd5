"""What people say of themselves, a word of comfort and two pieces of advice."""

# what the user says: (comfort, advice, advice)
FEELINGS: dict[str, tuple[str, str, str]] = {
    "I feel sad today": (
        "I am sorry that you feel sad",
        "A short walk in the fresh air may help",
        "You could call a friend and tell them about it",
    ),
    "I cannot sleep": (
        "It is hard to lie awake at night",
        "Try to breathe slowly and count your breaths",
        "A warm cup of milk and a quiet book may help",
    ),
    "I am very tired": (
        "You must have had a long day",
        "Sit down for a while and drink some water",
        "Go to bed early tonight and leave the work for tomorrow",
    ),
    "I am bored": (
        "A boring day is a good time to try something new",
        "You could draw the view from your window",
        "Perhaps you can learn a song or bake a small cake",
    ),
    "I am afraid of the dark": (
        "Many people are afraid of the dark",
        "Put a small lamp beside your bed",
        "Remember that the room is the same by day and by night",
    ),
    "I lost my keys": (
        "That is a very annoying thing",
        "Look in the pockets of the coat that you wore last",
        "Go back in your mind to the moment when you opened the door",
    ),
    "I had a fight with my friend": (
        "It hurts to fight with someone you like",
        "Wait until you are both calm and then talk about it",
        "You could say that you are sorry for your part",
    ),
    "I am happy today": (
        "That is lovely to hear",
        "Share your joy with somebody",
        "Write down what made you happy so that you can remember it",
    ),
    "I have too much work": (
        "That sounds like a heavy load",
        "Write a list and choose the one thing that matters most",
        "Ask somebody to take a small part of it",
    ),
    "I am nervous about my exam": (
        "It is normal to be nervous before an exam",
        "Read your notes once more and then rest",
        "Breathe slowly before you begin and start with an easy question",
    ),
    "I miss my family": (
        "It is hard to be far away from the people you love",
        "Call them tonight and ask about their day",
        "Cook a meal that reminds you of home",
    ),
    "I am cold": (
        "I hope that you can warm up soon",
        "Put on a thick sweater and dry socks",
        "A bowl of hot soup would do you good",
    ),
    "I am hungry": (
        "An empty stomach makes everything harder",
        "Eat an apple or a piece of bread",
        "Perhaps you can cook some soup with what is in the kitchen",
    ),
    "my dog is ill": (
        "I am sorry to hear about your dog",
        "Give it fresh water and a quiet place to lie down",
        "Take it to an animal doctor if it does not eat",
    ),
    "it is raining all day": (
        "A long rainy day can be very cosy",
        "Read a book beside the window",
        "You could bake something while the rain sings on the roof",
    ),
    "I made a mistake": (
        "Everybody makes mistakes",
        "Say what happened and try to repair it",
        "Think about what you will do in another way next time",
    ),
    "I am new in this town": (
        "It takes time to feel at home in a new place",
        "Walk through the streets and find a nice park",
        "Say hello to your neighbours and ask them about the town",
    ),
    "I won a prize": (
        "What wonderful news",
        "Celebrate with the people who helped you",
        "Enjoy this day and be proud of your work",
    ),
}
