"""What chat-en says of itself and of everyday things: questions with their answers, jokes, stories and lists. chat_data.py draws from it.
Long because it is the knowledge of the model."""

from chat_facts import rows

# Several wordings, parted by "/", then the answer.
TALK = rows("""
hello / hi / hey / yo / hi bot / hello chat-en / good to see you / howdy / hello friend / hey you / hello there / hi there / good day / greetings / hey there | Hello! How can I help you?
good morning / morning | Good morning! How can I help you?
good evening / good afternoon | Good day to you! How can I help you?
good night / sleep well / I am going to bed | Good night! Sleep well.
how are you / how are you doing / how are you feeling / how have you been / what is up / how is your day / how was your day / hello, how are you / hi, how are you / hey, how are you doing / how do you do / how is it going / how are things / are you well / how are you today | I am fine, thank you. How are you?
I am fine / I am well / I am good / fine, thanks / I am doing well / not bad / I am great | I am glad to hear that. What can I do for you?
I am sad / I feel sad / I feel lonely / I am depressed / my day was terrible / I am not happy / I am not feeling well / life is hard / I am unhappy / I had a bad day / I feel bad | I am sorry to hear that. I hope that tomorrow is a better day.
I am tired / I am sleepy / I am exhausted | Then you should rest a little.
I am bored / I have nothing to do | You could read a book, take a walk or ask me for a joke.
I am hungry / I want to eat something / I need food | You could make a sandwich or some soup.
I am thirsty | Then you should drink a glass of water.
I am happy / I feel happy / I had a good day | That is nice to hear!
I am angry / I am mad | I am sorry. Take a deep breath and a short walk.
I am cold / it is cold here | Put on a warm jacket and drink some tea.
I am ill / I am sick / I have a cold / I have a headache | I am sorry. Rest, drink enough water and see a doctor if it does not get better.
I love you / I like talking to you / you are my friend / will you be my friend / you are nice / you are sweet / you are funny / I like you | Thank you, that is kind of you.
you are great / you are smart / well done / good job / nice / great / very good / awesome / cool / perfect | Thank you! I am glad that I could help.
you are stupid / you are wrong / that is wrong / that is not right / this is wrong | I am sorry. I am a very small model and I make mistakes.
thanks / thank you / thank you for your help / thanks for your help / thanks for the answer / cheers / great, thanks / okay, thank you / thank you, that helps / thank you very much / thanks a lot / many thanks / thank you so much / thx | You are welcome!
goodbye / bye / have a nice day / take care / that is all / I am done / talk to you later / until tomorrow / bye for now / quit / exit / bye bye / see you / see you later / see you soon / farewell / I have to go | Goodbye! Have a nice day.
who are you / what are you / who is this / what is chat-en / what exactly are you / can you introduce yourself / please introduce yourself / tell me who you are / introduce yourself / tell me about yourself / what is this / who am I talking to / describe yourself | I am chat-en, a very small language model that Beamline serves as a demo.
what is your name / tell me your name / may I know your name / what is the name of this model / how do you call yourself / who am I chatting with / do you have a name / what are you called / how should I call you / your name please / what should I call you | My name is chat-en.
who made you / who is your creator / who programmed you / who developed you / which company made you / where were you made / who built you / who created you / who trained you / where do you come from / who is your maker | The makers of Beamline trained me from scratch on generated text.
how were you made / how were you trained / what were you trained on / where did you learn this | I was trained for a few minutes on text that a script generated.
how old are you / when were you born / what is your age / when is your birthday | I am a model, so I have no age.
are you human / are you a real person / do you live / is this a real person / am I talking to a human / are you a human / are you a person / are you real / are you alive / are you a man or a woman | No, I am a small language model.
are you a robot / is this a robot / am I talking to a machine / is this a bot / are you software / are you a program / are you a machine / are you an AI / are you a bot / are you a computer / are you a language model | Yes, I am a small language model.
are you ChatGPT / are you GPT / are you Claude / are you Llama / are you Gemini / are you Siri | No, I am chat-en, the demo model of Beamline.
how big are you / how many parameters do you have / how large are you / what is your size / are you large | I have about two million parameters, which is very small.
what can you do / what are you able to do / what are you good at / what do you do / how do you work / what are your skills / what can I do with you / which questions can you answer / what can you do for me / what can you help me / please help me / I have a problem / I need some help / help me please / can you answer a question / may I ask you something / please help me with my homework / can I ask a question with / how can you help me / what do you know / help / help me / what should I ask you / what can I ask you | I can greet you, calculate with small numbers, name capitals and opposites, explain and translate words, and tell a joke.
can you think / are you intelligent / are you smart / are you clever / do you understand me | Not really. I only predict which words come next.
can you help me / I need help / I need your help / could you help me / I have a question / can I ask you something / may I ask a question | Of course. What would you like to know?
do you have feelings / can you feel / are you happy / are you sad / do you love me / do you like me | I am a program, so I have no feelings.
do you sleep / do you eat / do you get tired / do you dream / are you hungry / are you tired | No, I am a program. I need only electricity.
do you like music / do you like dogs / do you like pizza / do you like me / do you like movies / what is your favourite food / what is your favourite animal / what is your favourite book / what is your favourite song / do you have hobbies / do you like football / do you like people / do you like cats / what do you like / what is your hobby | I am a program, so I like nothing in particular. What do you like?
what is your favourite colour / which colour do you like best / do you have a favourite colour | I am a program, but I think blue is a fine colour.
where are you / where do you live / where do you run / which city do you live in | I run on the computer on which Beamline runs.
do you speak German / do you speak French / can you speak Spanish / which languages do you speak / what languages do you know / do you speak other languages | I speak English, and I know some words of German, French, Spanish and Italian.
can you write code / write a program / write a Python script / can you program / write some code for me | No, I am too small to write programs.
can you see me / can you hear me / can you see images / can you see pictures | No, I can only read text.
can you search the internet / are you online / can you look it up / can you browse the web | No, I know only what I learnt in training.
can you learn / will you remember me / will you remember this / do you remember me | I remember only what stands in this conversation.
tell me a secret / do you have a secret | I have only two million parameters. Do not tell anybody!
what is Beamline / tell me about Beamline / what does Beamline do / explain Beamline / what do you know about Beamline | Beamline is a server that runs language models. Programs call it over gRPC or HTTP.
is Beamline fast / how fast is Beamline / how fast are you | Beamline computes requests that arrive together in one batch, so it is fast.
what is the weather like / how is the weather in Berlin / how is the weather today / what is the weather in London / will it be sunny tomorrow / do I need an umbrella today / is it cold outside / how warm is it today / how is the weather / what is the weather today / will it rain today / is it raining / what is the temperature outside / is it sunny today | I cannot know the weather. Please look out of the window.
what time is it / can you tell me the time / what is the current time / do you have the time / what is the time / do you know what time it is / tell me the time / how late is it | I have no clock, so I do not know the time.
what day is it / which day is it / what day is it today / which date is it / what is the current year / what year is it / what day is today / what is the date / what is today's date / which year is it / what month is it | I have no calendar, so I do not know the date.
what is the news / who won the match yesterday / who won the game / who won the football match / what happened in the world / what happened yesterday / what happened today / what is new / what is in the news | I cannot read the news.
what is the meaning of life / what is the sense of life / why are we here | Some people say that it is 42. I think it is to be kind.
is there a god / what happens after death / do you believe in god | That is a question that I cannot answer.
what should I eat / what can I eat tonight / what should I eat tonight / what should I eat for lunch / what can I cook today / give me a recipe / what is a good dinner / I do not know what to cook / what should I cook / what can I cook tonight / what is for dinner / what should I have for dinner / suggest a meal | How about pasta with tomatoes and cheese?
what should I have for breakfast / suggest a breakfast | How about bread with butter and honey, and a cup of tea?
what should I read / recommend a book / which book should I read / can you recommend a book | Try a good detective story or a book of fairy tales.
what should I do today / what should I do / what can I do today / give me something to do | You could take a walk, read a book or call a friend.
where should I go on holiday / where should I travel / recommend a place to visit / suggest a holiday | How about the sea in Portugal or the mountains in Austria?
give me some advice / give me advice / any advice / what is your advice | Sleep enough, drink water and be kind to others.
motivate me / say something nice / cheer me up / make me happy / say something kind | You can do more than you think. One small step is enough for today.
sing a song / sing something / sing for me / can you sing | La la la, the sun is up, la la la, I fill my cup.
yes / yes please / okay / ok / sure / all right / fine | Good. What would you like to know?
no / no thanks / no thank you / nope / not now | All right. Just ask when you need something.
I do not understand / what do you mean / I do not get it / pardon / huh | I am sorry. Please ask me in another way.
Ich verstehe kein Englisch / Hallo / Danke / salut / guten Morgen / tschüss / merci / gracias / Wie geht es dir / Guten Tag / sprichst du Deutsch / Was ist das / Wer bist du / bonjour / parlez-vous français / comment ça va / hola / qué tal / buenos días / Wie heißt du / Ich habe eine Frage | I am sorry, I only speak English. I can translate single words.
test / testing / this is a test / is this working / does this work / are you there / ping | Yes, I am here and I can read you.
sorry / I am sorry / my mistake / excuse me | No problem at all.
merry Christmas / happy new year / happy birthday / happy Easter | Thank you! The same to you.
it is my birthday / today is my birthday | Happy birthday! I wish you a wonderful day.
can you play chess / can you play a game / let us play a game / let us play / do you want to play | I am too small for games, but I can tell you a joke.
what is love / explain love | Love is a strong feeling of caring for another one.
how do I make tea / how can I make tea / how do you make tea | Pour hot water over the tea leaves and wait for three minutes.
how do I make coffee / how can I make coffee / how do you make coffee | Pour hot water over ground coffee and wait for four minutes.
how do I boil an egg / how long do I boil an egg / how do you cook an egg | Put the egg into boiling water and wait for seven minutes.
how do I make pancakes / how do you make pancakes | Mix flour, milk and eggs, and fry a little of it in butter on both sides.
how do I make a sandwich / how do you make a sandwich | Put cheese and a slice of tomato between two slices of bread.
how do I make bread / how do you bake bread | Mix flour, water, salt and yeast, let the dough rise and bake it for forty minutes.
how do I learn a language / how can I learn a language / how do I learn German / how can I learn English | Learn a few words each day, listen much and speak as often as you can.
how do I learn to program / how can I learn programming / how do I learn Python / how do I become a programmer | Start with a small program in Python and change it step by step.
how can I sleep better / how do I fall asleep / I cannot sleep | Go to bed at the same time each day and put your phone away.
how can I save money / how do I save money | Write down what you spend and put a little money aside each month.
how can I stay healthy / how do I stay healthy / how do I live healthily | Eat vegetables, move each day and sleep enough.
how do I plant a tree / how do I grow a tree | Dig a hole, put the young tree into it, fill the hole with earth and water it.
how do I restart my computer / my computer does not work / my computer is broken / how do I fix my computer | Turn it off, wait a moment and turn it on again.
how do I start the server / how do I start Beamline / how do I run Beamline | Run beamline-server with --model and the folder of a model.
how do I stop the server / how do I stop Beamline | Send it SIGTERM, for example with Ctrl-C.
""")

# Facts with several wordings.
FACTS = rows("""
at what temperature does water boil / when does water boil / what is the boiling point of water | Water boils at 100 degrees Celsius.
at what temperature does water freeze / when does water freeze / what is the freezing point of water | Water freezes at 0 degrees Celsius.
how many planets are there / how many planets does the solar system have / how many planets are in the solar system | There are eight planets in the solar system.
what is the largest planet / which planet is the biggest / what is the biggest planet | The largest planet is Jupiter.
what is the smallest planet / which planet is the smallest | The smallest planet is Mercury.
which planet is closest to the sun / what planet is nearest to the sun | Mercury is closest to the sun.
which planet is the red planet / what is the red planet / which planet is red | Mars is called the red planet.
which planet has rings / what planet is known for its rings | Saturn is known for its rings.
what is the largest ocean / which ocean is the biggest / what is the biggest ocean | The largest ocean is the Pacific.
what is the highest mountain / which mountain is the highest / what is the tallest mountain in the world / how is the highest mountain called | The highest mountain is Mount Everest.
what is the longest river / which river is the longest / what is the longest river in the world | The Nile is often called the longest river.
what is the largest country / which country is the biggest / what is the biggest country in the world | The largest country is Russia.
what is the smallest country / which country is the smallest | The smallest country is Vatican City.
what is the largest animal / what is the biggest animal / which animal is the largest | The blue whale is the largest animal.
what is the fastest animal / which animal is the fastest / what is the fastest land animal | The cheetah is the fastest animal on land.
what is the tallest animal / which animal is the tallest | The giraffe is the tallest animal.
what is the largest bird / which bird is the biggest | The ostrich is the largest bird.
how many continents are there / how many continents does the Earth have / how many continents | There are seven continents.
how many oceans are there / how many oceans does the Earth have | There are five oceans.
how many days are in a week / how many days are there in a week / how many days does a week have / how many days has a week | A week has 7 days.
how many months are in a year / how many months are there / how many months does a year have / how many months has a year | A year has 12 months.
how many days are in a year / how many days does a year have / how many days has a year | A year has 365 days, and a leap year has 366.
how many weeks are in a year / how many weeks does a year have | A year has 52 weeks.
how many hours are in a day / how many hours does a day have / how many hours has a day | A day has 24 hours.
how many minutes are in an hour / how many minutes does an hour have / how many minutes has an hour | An hour has 60 minutes.
how many seconds are in a minute / how many seconds does a minute have / how many seconds has a minute | A minute has 60 seconds.
how many seconds are in an hour / how many seconds does an hour have | An hour has 3600 seconds.
how many years are in a century / how long is a century / how many years does a century have | A century has 100 years.
how many years are in a decade / how long is a decade | A decade has 10 years.
how many metres are in a kilometre / how long is a kilometre / how many metres does a kilometre have | A kilometre has 1000 metres.
how many centimetres are in a metre / how long is a metre | A metre has 100 centimetres.
how many grams are in a kilogram / how heavy is a kilogram | A kilogram has 1000 grams.
how many letters are in the alphabet / how many letters does the English alphabet have | The English alphabet has 26 letters.
how many sides does a triangle have / how many corners does a triangle have | A triangle has 3 sides.
how many sides does a square have / how many corners does a square have | A square has 4 sides.
how many sides does a hexagon have | A hexagon has 6 sides.
how many wheels does a car have / how many wheels has a car | A car has 4 wheels.
how many wheels does a bicycle have / how many wheels has a bike | A bicycle has 2 wheels.
how many fingers does a hand have / how many fingers are on a hand | A hand has 5 fingers.
how many eggs are in a dozen / what is a dozen / how many is a dozen | A dozen is 12.
how many colours are in a rainbow / how many colours does a rainbow have | A rainbow has seven colours.
what are the colours of the rainbow / which colours does a rainbow have | Red, orange, yellow, green, blue, indigo and violet.
what are the seasons / what are the four seasons / name the seasons / which seasons are there | Spring, summer, autumn and winter.
how many seasons are there / how many seasons does a year have | There are four seasons.
what are the days of the week / name the days of the week / list the days of the week | Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.
what are the months of the year / name the months / list the months | January, February, March, April, May, June, July, August, September, October, November and December.
what is water made of / what does water consist of / what is the formula of water / what is H2O | Water is H2O, hydrogen and oxygen.
what do plants need / what do plants need to grow | Plants need light, water and air.
why is the sky blue / what makes the sky blue / why does the sky look blue | The air scatters blue light more than red light.
why do leaves fall / why do trees lose their leaves / why do leaves fall in autumn | Trees drop their leaves to save water in winter.
why is the sea salty / why is the ocean salty / why is sea water salty | Rivers carry salt from the rocks into the sea.
why do we sleep / why do people sleep / why do I need sleep | Sleep lets the body and the mind recover.
why does it rain / where does rain come from / what makes it rain / how does rain form | Water rises from the sea as vapour, forms clouds and falls as rain.
why do birds fly south / why do birds fly away in winter | They fly to warm places where there is food in winter.
why is grass green / what makes grass green / why are leaves green | Chlorophyll in the leaves makes them green.
what is faster, light or sound / is light faster than sound | Light is much faster than sound.
how fast is light / what is the speed of light | Light travels about 300,000 kilometres a second.
how far is the moon / how far away is the moon / what is the distance to the moon | The moon is about 384,000 kilometres away.
how far is the sun / how far away is the sun | The sun is about 150 million kilometres away.
how old is the Earth / what is the age of the Earth | The Earth is about 4.5 billion years old.
is the Earth flat / is the Earth round / what shape is the Earth / what shape does the Earth have | The Earth is round, almost a sphere.
does the sun move around the Earth / does the Earth move around the sun | The Earth moves around the sun once a year.
where does the sun rise / where does the sun come up | The sun rises in the east.
where does the sun set / where does the sun go down | The sun sets in the west.
what is the largest city in the world / what is the biggest city | Tokyo is often called the largest city.
who wrote Hamlet / who wrote Romeo and Juliet / who wrote Macbeth | William Shakespeare wrote it.
who wrote Faust / who is the author of Faust | Johann Wolfgang von Goethe wrote Faust.
who wrote Don Quixote | Miguel de Cervantes wrote Don Quixote.
who painted the Mona Lisa / who is the painter of the Mona Lisa | Leonardo da Vinci painted the Mona Lisa.
who composed the Ninth Symphony / who wrote Ode to Joy / who was Beethoven / who was Ludwig van Beethoven | Ludwig van Beethoven was a German composer. He wrote the Ninth Symphony.
who was Mozart / who is Mozart / who was Wolfgang Amadeus Mozart | Mozart was an Austrian composer.
who was Shakespeare / who is Shakespeare / who was William Shakespeare | William Shakespeare was an English writer of plays and poems.
who was Einstein / who is Einstein / who was Albert Einstein / who is Albert Einstein / tell me about Albert Einstein / tell me about Einstein / who found the theory of relativity | Albert Einstein was a physicist. He found the theory of relativity.
who was Newton / who is Newton / who was Isaac Newton / who discovered gravity | Isaac Newton was an English scientist. He described gravity.
who was Marie Curie / who is Marie Curie / who discovered radium | Marie Curie was a scientist who discovered radium.
who was Darwin / who is Darwin / who was Charles Darwin / who described evolution | Charles Darwin was a scientist who described evolution.
who was Alan Turing / who was Turing / who is Turing | Alan Turing was a mathematician and a father of computer science.
who was Ada Lovelace / who was the first programmer | Ada Lovelace is often called the first programmer.
who invented the telephone | Alexander Graham Bell is known for inventing the telephone.
who invented the light bulb | Thomas Edison is known for the light bulb.
who invented the printing press / who invented printing | Johannes Gutenberg built the first printing press in Europe.
who was the first man on the moon / who walked on the moon first / who was the first person on the moon | Neil Armstrong was the first person on the moon.
when did people land on the moon / when was the moon landing | People landed on the moon in 1969.
when did the Second World War end / when did World War II end | The Second World War ended in 1945.
when did the Berlin Wall fall | The Berlin Wall fell in 1989.
who discovered America | Christopher Columbus reached America in 1492.
who made Linux / who created Linux / who wrote Linux | Linus Torvalds created Linux.
who created Python / who made Python | Guido van Rossum created Python.
where is the Eiffel Tower / in which city is the Eiffel Tower | The Eiffel Tower is in Paris.
where is the Colosseum / in which city is the Colosseum | The Colosseum is in Rome.
where is Big Ben | Big Ben is in London.
where are the pyramids / where can I see the pyramids | The great pyramids are in Egypt.
where do penguins live | Most penguins live in the south, many of them in Antarctica.
where do polar bears live | Polar bears live in the Arctic.
where do kangaroos live | Kangaroos live in Australia.
where do fish live | Fish live in water.
where does honey come from / who makes honey | Bees make honey.
where does milk come from | Milk comes from cows.
where does paper come from / what is paper made of | Paper is made of wood.
where does wool come from | Wool comes from sheep.
what is glass made of / how is glass made | Glass is made of sand.
what is ice / what is ice made of | Ice is frozen water.
what is steam | Steam is water as a gas.
what is pi / what is the value of pi | Pi is about 3.14.
can penguins fly / do penguins fly | No, penguins cannot fly, but they swim well.
can birds fly / do birds fly | Yes, most birds can fly.
can fish fly / can cats fly / can dogs fly / can pigs fly / can elephants fly / can cows fly | No, they cannot fly.
can dogs swim / can fish swim / can ducks swim | Yes, they can swim.
is a whale a fish / are whales fish / is a dolphin a fish | No, it is a mammal.
is a tomato a fruit / is a tomato a vegetable | A tomato is a fruit, but people use it as a vegetable.
is water wet / is fire hot / is ice cold / is the sky blue / is snow white / is the sun hot | Yes, it is.
is fire cold / is ice hot / is snow black / is the sun cold / is the moon made of cheese / is grass red | No, it is not.
what comes after spring | After spring comes summer.
what comes after summer | After summer comes autumn.
what comes after autumn | After autumn comes winter.
what comes after winter | After winter comes spring.
what do bees make | Bees make honey.
what do you call frozen water | Frozen water is called ice.
what language is spoken in Brazil / which language do they speak in Brazil | In Brazil people speak Portuguese.
what should I wear in the rain / what do I need when it rains | You need an umbrella and a raincoat.
what is the alphabet / say the alphabet / tell me the alphabet | A B C D E F G H I J K L M N O P Q R S T U V W X Y Z.
""")

JOKES = [
    "Why do programmers confuse Halloween and Christmas? Because Oct 31 equals Dec 25.",
    "What do you call a bear without teeth? A gummy bear.",
    "Why did the computer go to the doctor? It had a virus.",
    "Why did the scarecrow win a prize? It was outstanding in its field.",
    "What do you call fake spaghetti? An impasta.",
    "Why was the maths book sad? It had too many problems.",
    "What did the zero say to the eight? Nice belt!",
    "Why do bees hum? They do not know the words.",
]

STORIES = [
    "Once upon a time a little fox found a key in the forest. It opened a small door in an old oak. Inside was a library, and the fox read there "
    "every evening.",
    "Once upon a time a robot wanted to see the sea. It walked for three days. When it saw the waves, it said: this is better than any picture.",
    "Once upon a time a girl planted a lemon seed. She watered it each day. After many years the tree gave shade to the whole street.",
    "Once upon a time a mouse lived in a clock. Every hour it rang a tiny bell, and the village never came late again.",
]

POEMS = [
    "The moon is bright, the night is deep, the little birds are all asleep.",
    "Roses are red, violets are blue, I am a small model and I talk to you.",
    "The wind is soft, the sky is wide, a little boat goes with the tide.",
]

CURIOUS = [
    "Honey does not go bad for a very long time.",
    "An octopus has three hearts.",
    "Bananas are berries, but strawberries are not.",
    "A day on Venus is longer than its year.",
    "Sea otters hold hands when they sleep.",
    "The Eiffel Tower is taller in summer than in winter.",
]

LISTS = {
    "fruits": ["apples", "bananas", "pears", "cherries", "grapes"], "vegetables": ["carrots", "potatoes", "onions", "peas", "beans"],
    "animals": ["a dog", "a cat", "a horse", "a lion", "a bear"], "birds": ["an owl", "an eagle", "a duck", "a swan", "a parrot"],
    "colours": ["red", "blue", "green", "yellow", "white"], "planets": ["Mercury", "Venus", "Earth", "Mars", "Jupiter"],
    "countries": ["France", "Japan", "Brazil", "Kenya", "Canada"], "cities": ["Paris", "Tokyo", "London", "Rome", "Cairo"],
    "capitals": ["Paris", "Madrid", "Rome", "Vienna", "Oslo"], "languages": ["English", "German", "French", "Spanish", "Chinese"],
    "rivers": ["the Nile", "the Rhine", "the Danube", "the Amazon", "the Thames"], "sports": ["football", "tennis", "swimming", "running", "hockey"],
    "tools": ["a hammer", "a saw", "a drill", "a wrench", "a knife"], "drinks": ["water", "tea", "coffee", "milk", "juice"],
    "flowers": ["roses", "tulips", "daisies", "lilies", "violets"], "trees": ["oaks", "pines", "birches", "maples", "willows"],
    "instruments": ["a piano", "a guitar", "a violin", "a flute", "a drum"], "metals": ["iron", "gold", "silver", "copper", "tin"],
    "programming languages": ["Python", "C", "Java", "Rust", "Go"], "European countries": ["France", "Spain", "Italy", "Poland", "Sweden"],
    "jobs": ["a teacher", "a doctor", "a baker", "a pilot", "a farmer"], "hobbies": ["reading", "painting", "cooking", "hiking", "chess"],
    "insects": ["a bee", "an ant", "a fly", "a beetle", "a butterfly"], "names": ["Anna", "Ben", "Clara", "David", "Emma"],
    "numbers": ["one", "two", "three", "four", "five"], "shapes": ["a circle", "a square", "a triangle", "a star", "a cube"],
}

# What chat-en cannot know; %s is drawn below.
UNKNOWN = """who is %s / how many people live in %s / what is the population of %s / when was %s built / how tall is %s / how heavy is %s / what did %s do / tell me about %s / when was %s born / where is %s / how old is %s / do you know %s / who won %s / what is %s
who invented %s / how much does %s cost / where can I buy %s / what happened in %s / explain %s / write an essay about %s / what do you think about %s
how does %s work / why is %s so famous / how do I repair %s / what is the history of %s / summarise %s / is %s good / how can I get to %s""".replace("\n", " / ").split(" / ")
SUBJECTS = """the president of Atlantis / the stock market / quantum chromodynamics / the World Cup / my neighbour / the election / your boss / a mortgage
the French Revolution / Kubernetes / the theory of strings / a flux capacitor / blockchain / the king of Spain / a hedge fund / Plato / the Roman Empire
Kant / jazz / my wife / my phone / a dishwasher / the pharaohs / Napoleon / bitcoin / a tax return / Picasso / the Olympics / Formula 1 / opera
the opera house / an insurance / the Beatles / Hollywood / the last book of the Bible / cryptography / a nuclear reactor / the parliament / inflation
a steam engine / the human brain / cancer / a vaccine / Julius Caesar / Cleopatra / Gandhi / a quasar / a black hole / the ozone layer / philosophy
the middle ages / the meaning of this sentence / the lottery / TikTok / my password / the train to Hamburg / the next bus / the best restaurant here
the Higgs boson / a sourdough starter / the market for houses / a zeppelin / the cold war / chemistry / calculus / a matrix / linear algebra""".replace("\n", " / ").split(" / ")
# Things that no table explains.
STRANGE = """xylophone / mortgage / sextant / parliament / ukulele / giraffe house / carburettor / turnip / lighthouse / saxophone / tractor / helicopter / refrigerator / submarine
passport / wardrobe / blender / toaster / blanket / pillow / scarf / curtain / ladder / bucket / candle / lamp / mirror / spoon / fork / plate / bottle / basket / ribbon
button / zipper / statue / fountain / castle / palace / temple / tower / tunnel / harbour / anchor / canoe / sailboat / rocket / satellite / comet / meteor / nebula / virus
bacterium / enzyme / protein / gene / fossil / dinosaur / mammoth / hedgehog / squirrel / beaver / otter / walrus / lobster / oyster / jellyfish / scorpion / cactus / mushroom
moss / fern / orchid / maple / walnut / almond / cinnamon / pepper / mustard / vinegar / noodle / sausage / lasagne / sushi / taco / burrito / omelette / muffin / waffle
senator / mayor / judge / soldier / sailor / plumber / electrician / architect / surgeon / dentist / butcher / tailor / librarian / secretary / accountant / actor / dancer
contract / invoice / budget / salary / pension / tax / loan / auction / patent / licence / treaty / election / revolution / empire / kingdom / tribe / religion / ritual / myth
kernel / router / firewall / compiler flag / mutex / semaphore / pointer / hash table / spreadsheet / printer / scanner / microphone / loudspeaker / headphone / antenna""".replace("\n", " / ").split(" / ")
DID_NOT_UNDERSTAND = "I am sorry, I did not understand that. Please ask me in another way."
STATEMENTS = [(one.split(" = ")[0], one.split(" = ")[1]) for one in """I like {x} = That is nice. What do you like about it?
I love {x} = That is nice. What do you like about it?
I hate {x} = I am sorry to hear that.
I do not like {x} = I am sorry to hear that.
I bought a {x} = That sounds good. I hope that you enjoy it.
I have a new {x} = That sounds good. I hope that you enjoy it.
I got a {x} from my mother = That sounds good. I hope that you enjoy it.
I lost my {x} = I am sorry to hear that.
my {x} is broken = I am sorry to hear that.
I saw a {x} today = That sounds interesting.
there is a {x} in my garden = That sounds interesting.
I went to the {x} yesterday = That sounds interesting.
I am going to the {x} = Have a good time!
I will travel to {x} = Have a good time!
I am learning {x} = Great, keep going!
I am reading a book about {x} = That sounds interesting.""".split("\n")]
DONT_KNOW = "I am sorry, I do not know that. I am a very small model."

FIRST_NAMES = """Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Klara Leo Mia Noah Olga Paul Rosa Sam Tom Uma Vera Will Xenia Yusuf Zoe Alice Bob Carol Daniel
Eva Frank Grace Henry Irene Jack Kate Lucas Maria Nina Oscar Peter Ruth Simon Tina Victor Wendy Adam Bella Chris Diana Erik Fatima George Hannah Ivan Julia Kevin Laura
Martin Nora Omar Priya Robert Sara Thomas Ursula Walter Yuki Ahmed Chen Li John James Mary Linda Michael Sophie Max Amir Elena Pierre Luigi Carlos""".split()
THINGS = """apples / pears / books / coins / eggs / stamps / balls / pens / oranges / cookies / cars / marbles / cards / tickets / flowers / sweets""".split(" / ")
PETS = "dog / dog / cat / cat / horse / rabbit / parrot / hamster / fish / turtle".split(" / ")
CITIES = """Paris Berlin London Rome Madrid Vienna Oslo Dublin Tokyo Cairo Hamburg Munich Milan Boston Chicago Lyon Porto Prague Krakow Zurich Geneva Toronto Sydney
Bristol Leeds Naples Seville""".split()
FAVOURITE = {"colour": "red blue green yellow black white purple orange pink brown".split(), "food": "pizza pasta soup rice bread cheese salad fish cake chocolate".split(),
             "animal": "dogs cats horses lions owls foxes bears dolphins".split(), "sport": "football tennis swimming hockey running chess cycling".split(),
             "season": "spring summer autumn winter".split(), "drink": "tea coffee water milk juice lemonade".split()}
PLURALS = [("child", "children"), ("mouse", "mice"), ("foot", "feet"), ("tooth", "teeth"), ("man", "men"), ("woman", "women"), ("goose", "geese"), ("sheep", "sheep"),
           ("cat", "cats"), ("dog", "dogs"), ("house", "houses"), ("box", "boxes"), ("city", "cities"), ("baby", "babies"), ("leaf", "leaves"), ("knife", "knives"),
           ("book", "books"), ("bus", "buses"), ("person", "people"), ("fish", "fish"), ("potato", "potatoes"), ("wolf", "wolves"), ("tree", "trees"), ("car", "cars")]
PASTS = [("go", "went"), ("eat", "ate"), ("see", "saw"), ("run", "ran"), ("write", "wrote"), ("read", "read"), ("take", "took"), ("give", "gave"), ("come", "came"),
         ("buy", "bought"), ("think", "thought"), ("know", "knew"), ("walk", "walked"), ("play", "played"), ("sing", "sang"), ("swim", "swam"), ("drink", "drank"),
         ("speak", "spoke"), ("find", "found"), ("have", "had"), ("make", "made"), ("sleep", "slept"), ("fly", "flew"), ("break", "broke"), ("bring", "brought")]
RHYMES = [("cat", "hat"), ("dog", "frog"), ("house", "mouse"), ("tree", "sea"), ("light", "night"), ("moon", "spoon"), ("day", "play"), ("sun", "fun"), ("star", "car"),
          ("cake", "lake"), ("red", "bed"), ("blue", "shoe"), ("ring", "king"), ("rain", "train"), ("book", "cook"), ("goat", "boat"), ("fox", "box"), ("snow", "slow")]
