"""Words that searches treat specially, in English: those that say nothing, and forms that the index cannot relate."""

STOP_WORDS = frozenset(
    """a about again all also am an and any are as at be been before but by can could d did do does doing done for from
    get got had has have he her here him his how i if in into is it its just know like ll m may me mention mentioned
    might my no not of on once or our out please re remember s said say says she should so some t tell than that the
    their them then there these they this those to told up us ve was we were what when where which while who whom whose
    why will with would you your""".split()  # noqa: SIM905
)

# The index reduces "walked" and "walking" to one word; these it does not know.
_IRREGULAR = """become became;begin began begun;bite bit bitten;blow blew blown;break broke broken;bring brought;
build built;buy bought;catch caught;child children;choose chose chosen;come came;cost costs;deal dealt;draw drew drawn;
drink drank drunk;drive drove driven;eat ate eaten;fall fell fallen;feed fed;feel felt;fight fought;find found;
fly flew flown;forget forgot forgotten;freeze froze frozen;give gave given;go went gone;grow grew grown;hear heard;
hide hid hidden;hold held;keep kept;lead led;leave left;lend lent;lose lost;make made;man men;mean meant;meet met;
mouse mice;pay paid;person people;ride rode ridden;ring rang rung;rise rose risen;run ran;see saw seen;sell sold;
send sent;shake shook shaken;shoot shot;sing sang sung;sink sank sunk;sit sat;sleep slept;speak spoke spoken;
spend spent;stand stood;steal stole stolen;swim swam swum;take took taken;teach taught;tear tore torn;think thought;
throw threw thrown;understand understood;wake woke woken;wear wore worn;win won;woman women;write wrote written"""

FORMS = {word: forms for line in _IRREGULAR.split(";") for forms in [tuple(line.split())] for word in forms}
