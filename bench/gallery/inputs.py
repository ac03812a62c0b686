"""What the programs of the gallery work on: made here, the same every time, without a network. usage: inputs.py NAME FILE"""
import pathlib
import random
import sys

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


def text(path, mebibytes=192):
    """Text that looks like one (words of very different frequency), and every fourth MiB of noise."""
    source = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(source.choices(letters, range(26, 0, -1), k=1 + min(int(source.expovariate(0.25)), 14))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    pool = " ".join(source.choices(words, weights, k=1_000_000)).encode()
    with open(path, "wb") as out:
        for part in range(mebibytes):
            if part % 4 == 3:
                out.write(source.randbytes(1 << 20))
            else:
                begin = source.randrange(len(pool) - (1 << 20))
                out.write(pool[begin:begin + (1 << 20)])


def expression(source, names, depth=4):
    if depth == 0 or source.random() < 0.15:
        return source.choice(names) if source.random() < 0.8 else str(source.randrange(1, 1000))
    left, right = (expression(source, names, depth - 1) for _ in range(2))
    return f"({left} {source.choice('+-*^&|')} {right})"


def program(path, functions=8_000):
    """A long C file: functions with loops, conditions and calls of those before them."""
    source = random.Random(2)
    with open(path, "w") as out:
        out.write("extern unsigned table[1024];\n")
        for number in range(functions):
            names = ["a", "b", "c", "i", "table[(a + i) % 1024]"]
            callee = f"f{source.randrange(number)}(b, c, i)" if number else "b"
            out.write(f"unsigned f{number}(unsigned a, unsigned b, unsigned c) {{\n"
                      f"    for (unsigned i = 0; i < a % {source.randrange(2, 100)}; i++) {{\n"
                      f"        if ({expression(source, names, 3)} > c) {{\n"
                      f"            b += {expression(source, names)};\n"
                      f"            table[b % 1024] ^= {expression(source, names)};\n"
                      f"        }} else {{\n"
                      f"            c = {callee} + {expression(source, names)};\n"
                      f"        }}\n    }}\n    return {expression(source, ['a', 'b', 'c'])};\n}}\n")


def family(path, members=40, length=350):
    """An alignment of proteins that descend from one: what hmmbuild makes a profile of."""
    source = random.Random(3)
    ancestor = source.choices(AMINO_ACIDS, k=length)
    with open(path, "w") as out:
        out.write("# STOCKHOLM 1.0\n#=GF ID gallery\n")
        for number in range(members):
            out.write(f"member{number} {mutated(source, ancestor)}\n")
        out.write("//\n")


def mutated(source, ancestor):
    return "".join(letter if source.random() < 0.7 else source.choice(AMINO_ACIDS) for letter in ancestor)


def proteins(path, count=10_000):
    """Proteins to search: random ones, every other one with a member of the family in it."""
    source = random.Random(3)
    ancestor = source.choices(AMINO_ACIDS, k=350)
    with open(path, "w") as out:
        for number in range(count):
            sequence = "".join(source.choices(AMINO_ACIDS, k=source.randrange(100, 800)))
            if number % 2 == 0:
                sequence += mutated(source, ancestor)
            out.write(f">protein{number}\n{sequence}\n")


def video(path, width=640, height=360, frames=250):
    """Raw video (I420): a texture that moves under a window, faster and faster, with some noise."""
    source = random.Random(4)
    side = 2048
    smooth = [source.randrange(256) for _ in range(side // 16 + 1)]
    row = bytes((smooth[x // 16] * (16 - x % 16) + smooth[x // 16 + 1] * (x % 16)) // 16 for x in range(side))
    rows = [row[shift:] + row[:shift] for shift in (y * y // 64 % side for y in range(side))]
    with open(path, "wb") as out:
        for frame in range(frames):
            x, y = frame * frame // 40 % (side - width), frame * 3 % (side - height)
            luma = bytearray(b"".join(line[x:x + width] for line in rows[y:y + height]))
            for _ in range(2_000):
                luma[source.randrange(len(luma))] = source.randrange(256)
            chroma = b"".join(line[x // 2:x // 2 + width // 2] for line in rows[y:y + height:2])
            out.write(luma + chroma + chroma[::-1])


def main():
    name, path = sys.argv[1:]
    unfinished = pathlib.Path(path + ".new")
    {function.__name__: function for function in (text, program, family, proteins, video)}[name](unfinished)
    unfinished.rename(path)


main()
