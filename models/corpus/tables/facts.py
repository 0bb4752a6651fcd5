"""What forms and tools are filled with: names of people, cities, goods, and pieces to make new ones of."""

FIRST_NAMES = (
    "John", "Jane", "Jason", "Sarah", "Alice", "Bob", "Carol", "David", "Emma", "Frank", "Grace", "Henry", "Ivy", "Jack",
    "Kate", "Liam", "Maria", "Nina", "Oscar", "Paul", "Quinn", "Rita", "Sam", "Tina", "Uma", "Vincent", "Wendy", "Xavier",
    "Yara", "Zoe", "Anna", "Ben", "Clara", "Dan", "Eva", "Fred", "Gina", "Hans", "Ines", "Jim", "Karl", "Laura", "Mike",
    "Natalie", "Olga", "Peter", "Rosa", "Steve", "Tom", "Ursula", "Samuel", "Colvin", "Anne", "Mary", "Luis", "Chen", "Priya",
)  # fmt: skip
LAST_NAMES = (
    "Doe", "Smith", "Miller", "Brown", "Johnson", "Lee", "Garcia", "Liu", "Baker", "Carter", "Dixon", "Evans", "Fisher",
    "Green", "Hill", "Jones", "King", "Lopez", "Moore", "Novak", "Olsen", "Parker", "Reed", "Stone", "Taylor", "Weber", "Young",
)  # fmt: skip
SYLLABLES = (
    "ba", "ka", "lo", "mi", "ra", "ten", "vor", "sel", "dun", "fa", "gri", "hel", "jo", "nu", "pel", "qui", "ro", "sha",
    "tor", "ul", "wen", "yo", "zan", "bri", "cle", "dor", "es", "fin", "gar", "har", "ing", "kel", "lan", "mor", "nor", "ost",
)  # fmt: skip
# city: its country
CITIES = {
    "Paris": "France", "London": "United Kingdom", "Berlin": "Germany", "Rome": "Italy", "Madrid": "Spain", "Vienna": "Austria",
    "Athens": "Greece", "Lisbon": "Portugal", "Dublin": "Ireland", "Oslo": "Norway", "Stockholm": "Sweden", "Helsinki": "Finland",
    "Copenhagen": "Denmark", "Warsaw": "Poland", "Prague": "Czech Republic", "Budapest": "Hungary", "Bern": "Switzerland",
    "Brussels": "Belgium", "Amsterdam": "Netherlands", "Tokyo": "Japan", "Beijing": "China", "Seoul": "South Korea", "Delhi": "India",
    "Cairo": "Egypt", "Nairobi": "Kenya", "Ottawa": "Canada", "Washington": "United States", "Canberra": "Australia", "Lima": "Peru",
    "Santiago": "Chile", "Bogota": "Colombia", "Havana": "Cuba", "Ankara": "Turkey", "Bangkok": "Thailand", "Hanoi": "Vietnam",
}  # fmt: skip
TOWNS = (
    "San Francisco", "New York", "Boston", "Chicago", "Seattle", "Los Angeles", "Sydney", "Toronto", "Munich", "Hamburg", "Milan",
    "Barcelona", "Lyon", "Zurich", "Osaka", "Shanghai", "Mumbai", "Austin", "Denver", "Miami", "Dallas", "Geneva", "Porto", "Rio",
)  # fmt: skip
# event: the city and the country
VENUES = {
    "the 2012 summer games": ("London", "United Kingdom"), "the 2008 summer games": ("Beijing", "China"),
    "the 2016 games": ("Rio de Janeiro", "Brazil"), "the 2004 olympics": ("Athens", "Greece"), "the Eiffel Tower": ("Paris", "France"),
    "the Colosseum": ("Rome", "Italy"), "Big Ben": ("London", "United Kingdom"), "the Golden Gate Bridge": ("San Francisco", "United States"),
    "the olympic games of 2012": ("London", "United Kingdom"), "the 2020 olympics": ("Tokyo", "Japan"), "the 2000 olympics": ("Sydney", "Australia"),
    "the Statue of Liberty": ("New York", "United States"), "the 2024 olympics": ("Paris", "France"), "the Opera House": ("Sydney", "Australia"),
}  # fmt: skip
GOODS = (
    "bread", "milk", "apples", "tea", "coffee", "a lamp", "a book", "two chairs", "a bike", "pens", "paper", "eggs", "butter", "rice",
    "a phone", "a laptop", "shoes", "a jacket", "cheese", "honey", "a pizza", "a keyboard", "headphones", "socks", "soap", "a camera",
)  # fmt: skip
HOBBIES = (
    "chess", "football", "reading", "cooking", "hiking", "music", "painting", "swimming", "dancing", "gardening", "running", "tennis",
    "photography", "singing", "sailing", "fishing", "yoga", "cycling",
)  # fmt: skip
JOBS = (
    "software engineer", "teacher", "doctor", "nurse", "lawyer", "designer", "data scientist", "student", "writer", "pilot", "chef",
    "farmer", "baker", "manager", "plumber", "engineer", "painter", "driver",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
EVENTS = (
    "a science fair", "a birthday party", "a concert", "the team meeting", "a wedding", "dinner", "a football match", "the book club",
    "a picnic", "a dentist appointment", "the project review", "lunch", "a workshop", "a garden party",
)  # fmt: skip
COLORS = ("red", "blue", "green", "yellow", "black", "white", "orange", "purple", "pink", "brown")
SKIES = ("sunny", "cloudy", "rainy", "snowy", "windy", "foggy", "clear", "stormy")
SIGNS = (
    "Aries", "Taurus", "Gemini", "Cancer", "Leo", "Virgo", "Libra", "Scorpio", "Sagittarius", "Capricorn", "Aquarius", "Pisces",
)  # fmt: skip
SYMBOLS = ("AAPL", "GOOG", "MSFT", "TSLA", "NVDA", "AMZN", "IBM", "ORCL")
TOPICS = (
    "renewable energy", "space travel", "jazz music", "climate change", "cats", "machine learning", "gardening tips", "train tickets",
    "cheap flights", "the history of tea", "electric cars", "healthy food", "bears", "volcanoes", "solar power", "AI news", "python",
    "football results", "the moon landing", "ice cream", "programming", "recursion", "parrots", "dragons", "ocean currents",
)  # fmt: skip
PRAISE = (
    "I love this {x}, it works very well.", "The {x} is wonderful.", "Best {x} I ever had!", "This {x} is great and I am happy.",
)  # fmt: skip
BLAME = (
    "I hate this {x}, it broke after a day.", "The {x} is terrible.", "Worst {x} I ever had.", "This {x} is bad and I am angry.",
)  # fmt: skip
SHRUGS = (
    "The {x} is okay.",
    "This {x} is neither good nor bad.",
    "The {x} arrived today.",
    "It is a {x}.",
)
WARES = (
    "phone",
    "lamp",
    "book",
    "movie",
    "chair",
    "camera",
    "keyboard",
    "coffee",
    "pizza",
    "hotel",
    "laptop",
    "song",
)
# English: French, German, Spanish, Italian
PHRASES = {
    "I love programming": (
        "J'adore programmer",
        "Ich liebe Programmieren",
        "Me encanta programar",
        "Amo programmare",
    ),
    "Good morning": ("Bonjour", "Guten Morgen", "Buenos dias", "Buongiorno"),
    "Thank you": ("Merci", "Danke", "Gracias", "Grazie"),
    "Good night": ("Bonne nuit", "Gute Nacht", "Buenas noches", "Buonanotte"),
    "I love you": ("Je t'aime", "Ich liebe dich", "Te quiero", "Ti amo"),
    "Hello": ("Bonjour", "Hallo", "Hola", "Ciao"),
    "hi": ("salut", "hallo", "hola", "ciao"),
    "How are you?": ("Comment vas-tu ?", "Wie geht es dir?", "Como estas?", "Come stai?"),
    "I love music": (
        "J'adore la musique",
        "Ich liebe Musik",
        "Me encanta la musica",
        "Amo la musica",
    ),
    "I love reading": ("J'adore lire", "Ich liebe Lesen", "Me encanta leer", "Amo leggere"),
    "Goodbye": ("Au revoir", "Auf Wiedersehen", "Adios", "Arrivederci"),
    "The cat is black": (
        "Le chat est noir",
        "Die Katze ist schwarz",
        "El gato es negro",
        "Il gatto e nero",
    ),
    "I like tea": ("J'aime le the", "Ich mag Tee", "Me gusta el te", "Mi piace il te"),
}
LANGUAGES = ("French", "German", "Spanish", "Italian")
