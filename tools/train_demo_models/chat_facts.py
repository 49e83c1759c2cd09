"""What chat-en knows: tables of facts, one row a line, columns parted by "|" or "=". chat_data.py asks about them.
Long because it is the knowledge of the model."""


def rows(text, sign="|"):
    return [tuple(part.strip() for part in line.split(sign)) for line in text.strip().split("\n")]


def pairs(text):
    """'a=b, c=d' over several lines."""
    return [tuple(part.strip() for part in pair.split("=")) for pair in text.replace("\n", ",").split(",") if pair.strip()]


# country | capital | continent | language | currency
COUNTRIES = rows("""
France | Paris | Europe | French | the euro
Germany | Berlin | Europe | German | the euro
Spain | Madrid | Europe | Spanish | the euro
Italy | Rome | Europe | Italian | the euro
Portugal | Lisbon | Europe | Portuguese | the euro
Austria | Vienna | Europe | German | the euro
Greece | Athens | Europe | Greek | the euro
Ireland | Dublin | Europe | English | the euro
Finland | Helsinki | Europe | Finnish | the euro
Estonia | Tallinn | Europe | Estonian | the euro
Latvia | Riga | Europe | Latvian | the euro
Lithuania | Vilnius | Europe | Lithuanian | the euro
Croatia | Zagreb | Europe | Croatian | the euro
Slovenia | Ljubljana | Europe | Slovenian | the euro
Slovakia | Bratislava | Europe | Slovak | the euro
Belgium | Brussels | Europe | Dutch | the euro
the Netherlands | Amsterdam | Europe | Dutch | the euro
Luxembourg | Luxembourg | Europe | Luxembourgish | the euro
Malta | Valletta | Europe | Maltese | the euro
Switzerland | Bern | Europe | German | the Swiss franc
Norway | Oslo | Europe | Norwegian | the Norwegian krone
Sweden | Stockholm | Europe | Swedish | the Swedish krona
Denmark | Copenhagen | Europe | Danish | the Danish krone
Iceland | Reykjavik | Europe | Icelandic | the Icelandic krona
England | London | Europe | English | the pound
Scotland | Edinburgh | Europe | English | the pound
Wales | Cardiff | Europe | Welsh | the pound
the United Kingdom | London | Europe | English | the pound
Poland | Warsaw | Europe | Polish | the zloty
Hungary | Budapest | Europe | Hungarian | the forint
Romania | Bucharest | Europe | Romanian | the leu
Bulgaria | Sofia | Europe | Bulgarian | the euro
Serbia | Belgrade | Europe | Serbian | the dinar
Albania | Tirana | Europe | Albanian | the lek
Ukraine | Kyiv | Europe | Ukrainian | the hryvnia
Russia | Moscow | Europe | Russian | the rouble
Turkey | Ankara | Asia | Turkish | the lira
China | Beijing | Asia | Chinese | the yuan
Japan | Tokyo | Asia | Japanese | the yen
South Korea | Seoul | Asia | Korean | the won
India | New Delhi | Asia | Hindi | the rupee
Pakistan | Islamabad | Asia | Urdu | the rupee
Nepal | Kathmandu | Asia | Nepali | the rupee
Thailand | Bangkok | Asia | Thai | the baht
Vietnam | Hanoi | Asia | Vietnamese | the dong
Indonesia | Jakarta | Asia | Indonesian | the rupiah
Malaysia | Kuala Lumpur | Asia | Malay | the ringgit
the Philippines | Manila | Asia | Filipino | the peso
Mongolia | Ulaanbaatar | Asia | Mongolian | the tugrik
Iran | Tehran | Asia | Persian | the rial
Iraq | Baghdad | Asia | Arabic | the dinar
Israel | Jerusalem | Asia | Hebrew | the shekel
Saudi Arabia | Riyadh | Asia | Arabic | the riyal
Egypt | Cairo | Africa | Arabic | the Egyptian pound
Morocco | Rabat | Africa | Arabic | the dirham
Tunisia | Tunis | Africa | Arabic | the dinar
Kenya | Nairobi | Africa | Swahili | the shilling
Ethiopia | Addis Ababa | Africa | Amharic | the birr
Nigeria | Abuja | Africa | English | the naira
Ghana | Accra | Africa | English | the cedi
South Africa | Pretoria | Africa | Zulu | the rand
Senegal | Dakar | Africa | French | the franc
Canada | Ottawa | North America | English | the Canadian dollar
the United States | Washington | North America | English | the dollar
Mexico | Mexico City | North America | Spanish | the peso
Cuba | Havana | North America | Spanish | the peso
Jamaica | Kingston | North America | English | the dollar
Costa Rica | San José | North America | Spanish | the colón
Brazil | Brasília | South America | Portuguese | the real
Argentina | Buenos Aires | South America | Spanish | the peso
Chile | Santiago | South America | Spanish | the peso
Peru | Lima | South America | Spanish | the sol
Colombia | Bogotá | South America | Spanish | the peso
Ecuador | Quito | South America | Spanish | the dollar
Uruguay | Montevideo | South America | Spanish | the peso
Australia | Canberra | Australia | English | the Australian dollar
New Zealand | Wellington | Oceania | English | the New Zealand dollar
""")

OPPOSITES = pairs("""
hot=cold, big=small, large=small, tall=short, long=short, fast=slow, quick=slow, happy=sad, good=bad, new=old, young=old, up=down, left=right,
open=closed, full=empty, light=dark, hard=soft, easy=difficult, rich=poor, strong=weak, day=night, black=white, in=out, on=off, early=late,
loud=quiet, clean=dirty, wet=dry, true=false, near=far, high=low, deep=shallow, wide=narrow, thick=thin, heavy=light, sweet=bitter, first=last,
inside=outside, begin=end, start=stop, love=hate, win=lose, buy=sell, give=take, push=pull, come=go, laugh=cry, remember=forget, friend=enemy,
summer=winter, north=south, east=west, war=peace, yes=no, always=never, more=less, many=few, same=different, safe=dangerous, brave=afraid,
cheap=expensive, simple=complicated, alive=dead, awake=asleep, ancient=modern, smooth=rough, sharp=blunt, straight=crooked, above=below, front=back,
top=bottom, before=after, success=failure, question=answer, beautiful=ugly, kind=cruel, polite=rude, lazy=hard-working, tight=loose, visible=invisible,
possible=impossible, correct=wrong, warm=cool, cold=hot, small=big, slow=fast, sad=happy, bad=good, old=new, down=up, right=left, closed=open,
empty=full, dark=light, soft=hard, difficult=easy, poor=rich, weak=strong, night=day, white=black, late=early, quiet=loud, dirty=clean, dry=wet,
false=true, far=near, low=high, last=first, end=start, cheerful=gloomy, arrive=leave, accept=refuse, public=private, noisy=quiet, calm=nervous,
near=far, arrival=departure, ceiling=floor, sunrise=sunset, healthy=ill, increase=decrease, inhale=exhale, maximum=minimum, import=export
""")

SYNONYMS = pairs("""
big=large, small=little, happy=glad, sad=unhappy, fast=quick, begin=start, end=finish, smart=clever, angry=furious, tired=sleepy, beautiful=pretty,
scared=afraid, easy=simple, hard=difficult, answer=reply, help=assist, buy=purchase, choose=pick, ill=sick, rich=wealthy, quiet=silent, strange=odd,
funny=amusing, shop=store, car=automobile, road=street, present=gift, home=house, talk=speak, look=watch, near=close, brave=courageous,
error=mistake, job=work, rock=stone, woods=forest, boat=ship, cold=chilly, tasty=delicious, large=huge, child=kid, repair=fix, correct=right
""")

COLOURS = pairs("""
the sky=blue, grass=green, a banana=yellow, a ripe tomato=red, snow=white, coal=black, an orange=orange, a lemon=yellow, the sun=yellow, blood=red,
milk=white, chocolate=brown, a carrot=orange, a cucumber=green, a strawberry=red, the sea=blue, a fire engine=red, a leaf=green, a frog=green,
a polar bear=white, a flamingo=pink, an elephant=grey, a crow=black, a pea=green, a cherry=red, coffee=brown, an aubergine=purple, a swan=white,
a pumpkin=orange, a ruby=red, an emerald=green, gold=yellow, silver=grey, salt=white, a tree trunk=brown, a canary=yellow, lavender=purple,
a plum=purple, a stop sign=red, paper=white, spinach=green, a sunflower=yellow, the night sky=black, a cloud=white, a mouse=grey, broccoli=green,
a raven=black, sand=yellow, the ocean=blue, an apple=red or green, a rose=red, a school bus=yellow, a lime=green, a fox=red
""")

# animal | sound | young | legs | kind | food
ANIMALS = rows("""
dog | woof | puppy | four | mammal | meat
cat | meow | kitten | four | mammal | meat and fish
cow | moo | calf | four | mammal | grass
horse | neigh | foal | four | mammal | grass and hay
sheep | baa | lamb | four | mammal | grass
pig | oink | piglet | four | mammal | almost anything
duck | quack | duckling | two | bird | plants and insects
hen | cluck | chick | two | bird | seeds and insects
lion | roar | cub | four | mammal | meat
tiger | roar | cub | four | mammal | meat
bear | growl | cub | four | mammal | berries, fish and honey
frog | croak | tadpole | four | amphibian | insects
bee | buzz | larva | six | insect | nectar
goat | baa | kid | four | mammal | leaves and grass
owl | hoot | owlet | two | bird | mice
wolf | howl | cub | four | mammal | meat
mouse | squeak | pup | four | mammal | seeds and grain
elephant | trumpet | calf | four | mammal | leaves and bark
snake | hiss | snakelet | no | reptile | mice and eggs
donkey | hee-haw | foal | four | mammal | grass and hay
goose | honk | gosling | two | bird | grass
rabbit | squeak | kit | four | mammal | grass and carrots
fox | bark | cub | four | mammal | mice and berries
spider | nothing at all | spiderling | eight | arachnid | insects
ant | nothing at all | larva | six | insect | seeds and insects
butterfly | nothing at all | caterpillar | six | insect | nectar
eagle | screech | eaglet | two | bird | fish and small animals
penguin | squawk | chick | two | bird | fish
dolphin | click | calf | no | mammal | fish
whale | song | calf | no | mammal | krill and fish
shark | nothing at all | pup | no | fish | fish
giraffe | hum | calf | four | mammal | leaves
zebra | bark | foal | four | mammal | grass
monkey | chatter | infant | two | mammal | fruit and nuts
crocodile | growl | hatchling | four | reptile | meat
kangaroo | grunt | joey | two | mammal | grass
camel | grunt | calf | four | mammal | dry plants
octopus | nothing at all | larva | no | mollusc | crabs
turtle | hiss | hatchling | four | reptile | plants
parrot | squawk | chick | two | bird | seeds and fruit
""")

# English | German | French | Spanish | Italian
WORDS = rows("""
house | Haus | maison | casa | casa
dog | Hund | chien | perro | cane
cat | Katze | chat | gato | gatto
water | Wasser | eau | agua | acqua
bread | Brot | pain | pan | pane
milk | Milch | lait | leche | latte
book | Buch | livre | libro | libro
tree | Baum | arbre | árbol | albero
sun | Sonne | soleil | sol | sole
moon | Mond | lune | luna | luna
star | Stern | étoile | estrella | stella
fire | Feuer | feu | fuego | fuoco
friend | Freund | ami | amigo | amico
mother | Mutter | mère | madre | madre
father | Vater | père | padre | padre
brother | Bruder | frère | hermano | fratello
sister | Schwester | sœur | hermana | sorella
child | Kind | enfant | niño | bambino
man | Mann | homme | hombre | uomo
woman | Frau | femme | mujer | donna
day | Tag | jour | día | giorno
night | Nacht | nuit | noche | notte
morning | Morgen | matin | mañana | mattina
hello | Hallo | bonjour | hola | ciao
good morning | guten Morgen | bonjour | buenos días | buongiorno
good night | gute Nacht | bonne nuit | buenas noches | buona notte
goodbye | auf Wiedersehen | au revoir | adiós | arrivederci
thank you | danke | merci | gracias | grazie
please | bitte | s'il vous plaît | por favor | per favore
yes | ja | oui | sí | sì
no | nein | non | no | no
love | Liebe | amour | amor | amore
apple | Apfel | pomme | manzana | mela
cheese | Käse | fromage | queso | formaggio
fish | Fisch | poisson | pescado | pesce
bird | Vogel | oiseau | pájaro | uccello
horse | Pferd | cheval | caballo | cavallo
cow | Kuh | vache | vaca | mucca
school | Schule | école | escuela | scuola
city | Stadt | ville | ciudad | città
street | Straße | rue | calle | strada
door | Tür | porte | puerta | porta
window | Fenster | fenêtre | ventana | finestra
table | Tisch | table | mesa | tavolo
chair | Stuhl | chaise | silla | sedia
car | Auto | voiture | coche | macchina
train | Zug | train | tren | treno
red | rot | rouge | rojo | rosso
blue | blau | bleu | azul | blu
green | grün | vert | verde | verde
black | schwarz | noir | negro | nero
white | weiß | blanc | blanco | bianco
big | groß | grand | grande | grande
small | klein | petit | pequeño | piccolo
good | gut | bon | bueno | buono
new | neu | nouveau | nuevo | nuovo
old | alt | vieux | viejo | vecchio
one | eins | un | uno | uno
two | zwei | deux | dos | due
three | drei | trois | tres | tre
flower | Blume | fleur | flor | fiore
rain | Regen | pluie | lluvia | pioggia
snow | Schnee | neige | nieve | neve
winter | Winter | hiver | invierno | inverno
summer | Sommer | été | verano | estate
heart | Herz | cœur | corazón | cuore
hand | Hand | main | mano | mano
head | Kopf | tête | cabeza | testa
eye | Auge | œil | ojo | occhio
time | Zeit | temps | tiempo | tempo
world | Welt | monde | mundo | mondo
coffee | Kaffee | café | café | caffè
tea | Tee | thé | té | tè
wine | Wein | vin | vino | vino
beer | Bier | bière | cerveza | birra
language | Sprache | langue | lengua | lingua
computer | Computer | ordinateur | ordenador | computer
music | Musik | musique | música | musica
""")

# word | what it is (an article in front of the word where it has one)
DEFINITIONS = rows("""
a server | a program or computer that answers the requests of other programs
a client | a program that sends requests to a server
a computer | a machine that follows instructions and works with data
a database | an organised store of data that programs can search
a browser | a program that shows web pages
a compiler | a program that turns source code into machine code
a token | a piece of text, a word or a part of one, that a language model reads as one unit
a tokenizer | the part that cuts text into tokens
a language model | a program that has learnt from text which words are likely to come next
machine learning | a way to have computers learn from examples instead of fixed rules
a neural network | a network of simple units that learns by changing its weights
an embedding | a list of numbers that stands for the meaning of a text
a reranker | a model that sorts texts by how well they answer a question
a GPU | a processor that does many calculations at the same time
a CPU | the main processor of a computer
memory | the part of a computer that holds data while programs run
a file | a named piece of data on a disk
a folder | a place on a disk that holds files
an algorithm | a list of steps that solves a problem
a bug | a mistake in a program
software | the programs that run on a computer
hardware | the parts of a computer that you can touch
the internet | a network that connects computers all over the world
a password | a secret word that proves who you are
a keyboard | a set of keys for typing
an operating system | the software that runs a computer and its programs
Linux | a free operating system
Debian | a free operating system based on Linux
Python | a programming language that is easy to read
a programming language | a language in which people write programs
a variable | a name for a value in a program
a function | a named piece of a program that does one task
gRPC | a way for programs to call each other over a network
HTTP | the protocol with which browsers and servers talk
JSON | a text format for data
an API | the set of calls with which programs use another program
latency | the time between a request and its answer
throughput | the amount of work that is done in a given time
a robot | a machine that can do tasks by itself
gravity | the force that pulls things towards each other
photosynthesis | the way plants make food from light, water and air
evaporation | the change of a liquid into a gas
an atom | the smallest piece of a chemical element
a molecule | a group of atoms that are joined together
energy | the ability to do work
electricity | the flow of tiny charged particles
oxygen | a gas that we need to breathe
a planet | a large round body that moves around a star
a star | a huge ball of hot gas that gives light
the sun | the star at the centre of our solar system
the moon | the natural satellite of the Earth
the Earth | the planet on which we live
a galaxy | a very large group of stars
a volcano | a mountain from which hot rock can come out
an earthquake | a sudden shaking of the ground
a desert | a dry place with very little rain
an island | a piece of land with water all around it
a river | a large stream of water that flows to the sea
a mountain | a very high piece of land
a forest | a large area with many trees
the weather | the state of the air outside, such as rain, wind or sunshine
a rainbow | an arc of colours that appears when the sun shines on rain
a library | a place where you can read and borrow books
a hospital | a place where ill people are treated
a school | a place where children learn
a museum | a place where interesting objects are shown
a bakery | a shop that makes and sells bread
a restaurant | a place where you can buy and eat a meal
a doctor | a person who treats ill people
a teacher | a person who helps others to learn
a baker | a person who makes bread and cakes
a farmer | a person who grows crops and keeps animals
a pilot | a person who flies planes
a nurse | a person who cares for ill people
a carpenter | a person who makes things of wood
a lawyer | a person who gives advice about the law
a scientist | a person who studies how the world works
a poem | a short text in which the sound of the words matters
a novel | a long story in a book
a dictionary | a book that explains words
a map | a drawing that shows where places are
a clock | a device that shows the time
a bicycle | a vehicle with two wheels that you move with your legs
a car | a vehicle with four wheels and an engine
a train | a row of carriages that runs on rails
an aeroplane | a vehicle with wings that flies
a bridge | a structure that carries a road over a river
an umbrella | a thing that keeps you dry in the rain
a telescope | a device for looking at things that are far away
a microscope | a device for looking at very small things
a thermometer | a device that measures temperature
a guitar | a musical instrument with six strings
a piano | a large musical instrument with black and white keys
a violin | a small musical instrument that is played with a bow
chess | a board game for two players
football | a game in which two teams try to kick a ball into a goal
money | what people use to pay for things
a bank | a place that keeps and lends money
democracy | a form of government in which the people vote
a triangle | a shape with three sides
a square | a shape with four equal sides
a circle | a round shape
a prime number | a number above one that only one and itself divide
bread | a food made of flour, water and yeast
cheese | a food made of milk
honey | a sweet food that bees make
tea | a drink made of leaves and hot water
coffee | a drink made of roasted beans
friendship | the bond between people who like and help each other
happiness | the feeling of being glad
courage | the strength to do something although you are afraid
a dream | a story that the mind tells while you sleep
a verb | a word for an action, such as run or read
a noun | a word for a person, a place or a thing
an adjective | a word that describes a noun
""")

# thing | class; "Is a rose an animal?" and "What is a rose?"
KINDS = pairs("""
a rose=a flower, a tulip=a flower, a daisy=a flower, an oak=a tree, a birch=a tree, a pine=a tree, an apple=a fruit, a banana=a fruit, a pear=a fruit,
a cherry=a fruit, a carrot=a vegetable, a potato=a vegetable, an onion=a vegetable, spinach=a vegetable, a hammer=a tool, a saw=a tool,
a screwdriver=a tool, a sofa=a piece of furniture, a table=a piece of furniture, a bed=a piece of furniture, a shirt=a piece of clothing,
a jacket=a piece of clothing, a sock=a piece of clothing, a harp=a musical instrument, a flute=a musical instrument, a trumpet=a musical instrument,
gold=a metal, iron=a metal, copper=a metal, oxygen=a gas, nitrogen=a gas, tennis=a sport, hockey=a sport, rugby=a sport, Mars=a planet, Venus=a planet,
Jupiter=a planet, Saturn=a planet, a lorry=a vehicle, a bus=a vehicle, a tram=a vehicle
""")
