# A big dictionary of small objects, of which some are visited again and again.
# usage: dictionary.py ENTRIES VISITS
import random
import sys

entries, visits = int(sys.argv[1]), int(sys.argv[2])
random.seed(1)
table = {}
texts = []
for number in range(entries):
    table[number] = [number, str(number) * 40]
    if number % 3 == 0:
        texts.append("x" * random.randrange(600, 1200))
total = 0
for _ in range(visits):
    value = table[random.randrange(entries)]
    total += value[0] + len(value[1]) + ord(texts[random.randrange(len(texts))][5])
print(total)
