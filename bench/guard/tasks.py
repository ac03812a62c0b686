"""One small task for each program of bench/guard/programs: what is run, and on what. Inputs are made here, the same on every machine
but for what is taken from /usr (headers, documentation)."""
import dataclasses
import json
import os
import pathlib
import random
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclasses.dataclass
class Task:
    """`command` begins with the program. `process`: what gets the planted error, if it is not the program itself. `needs`: further
    programs. `is_server`: it is run under load, by `load` of bench/guard/programs."""
    command: list
    process: str = ""
    is_server: bool = False
    needs: list = dataclasses.field(default_factory=list)

    def missing(self):
        return [name for name in [self.command[0], *self.needs] if not shutil.which(name)]

    def name_of_process(self):
        return self.process or pathlib.Path(self.command[0]).name


SQL = """create table words(id integer primary key, word text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into words select i, 'word' || (i * 7919 % 5003), i * 0.5 from n;
create index by_word on words(word);
select word, count(*), sum(weight) from words group by word order by 3 desc limit 20;
select count(*) from words a join words b on a.word = b.word where a.id % 10 = 0;
"""
PERL = r"""my %of; while (<>) { $of{$_}++ for split /\W+/ } print "$_ $of{$_}\n" for (sort { $of{$b} <=> $of{$a} || $a cmp $b } keys %of)[0..50];"""
BASH = r"""declare -A of; n=0; for i in {1..4000}; do w="word$((i * 7919 % 503))"; of[$w]=$(( ${of[$w]:-0} + i )); n=$((n + ${#w})); done
for w in "${!of[@]}"; do echo "$w ${of[$w]}"; done | sort | head -n 20; echo $n"""
PYTHON = """import collections, json, re, sys
text = open(sys.argv[1]).read()
words = collections.Counter(re.findall(r"[a-z]+", text.lower()))
trees = [{"word": word, "times": times, "letters": list(word)} for word, times in sorted(words.items())]
print(words.most_common(20), len(json.dumps(json.loads(json.dumps(trees)), indent=1)))
"""
NODE = """const text = require('fs').readFileSync(process.argv[2], 'utf8');
const words = new Map();
for (const word of text.split(/\\W+/)) words.set(word, (words.get(word) || 0) + 1);
const sorted = [...words].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
console.log(JSON.stringify(sorted.slice(0, 30)), JSON.stringify(sorted).length);
"""
JAVA = """import java.nio.file.*;
import java.util.*;
public class Words {
    public static void main(String[] arguments) throws Exception {
        Map<String, Integer> words = new TreeMap<>();
        for (String word : Files.readString(Path.of(arguments[0]), java.nio.charset.StandardCharsets.ISO_8859_1).split("\\\\W+"))
            words.merge(word, 1, Integer::sum);
        Thread[] threads = new Thread[8];
        long[] sums = new long[threads.length];
        for (int i = 0; i < threads.length; i++) {
            int which = i;
            threads[i] = new Thread(() -> words.forEach((word, times) -> sums[which] += word.hashCode() * (long) times));
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        System.out.println(words.size() + " " + Arrays.stream(sums).sum());
    }
}
"""
# Many structures and functions: what a compiler allocates.
C_FUNCTION = "struct s{n} {{ int a, b; struct s{n} *next; }}; int f{n}(struct s{n} *p, int x) {{ int r = {n}; for (; p; p = p->next) r = r * x + p->a % (p->b + {n}); return r; }}\n"


def make_inputs(work):
    """Makes what the tasks read, once, and again when this file is another."""
    stamp = pathlib.Path(__file__).read_text()
    if (work / "made_by").exists() and (work / "made_by").read_text() == stamp:
        return build(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    chance = random.Random(1)
    stems = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(4000)]
    lines = [" ".join(chance.choices(stems, k=chance.randint(3, 12))) for _ in range(40_000)]
    (work / "text").write_text("\n".join(lines) + "\n")
    records = [{"id": number, "name": stems[number % 4000], "tags": chance.choices(stems, k=4), "at": {"x": number / 7, "y": -number}}
               for number in range(15_000)]
    (work / "records.json").write_text(json.dumps(records))
    for name, text in (("words.sql", SQL), ("words.py", PYTHON), ("words.js", NODE), ("Words.java", JAVA), ("words.sh", BASH)):
        (work / name).write_text(text)
    functions = "".join(C_FUNCTION.format(n=number) for number in range(150))
    (work / "functions.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n" + functions)
    tree = work / "tree"
    for number in range(6000):
        place = tree / f"{number % 40}" / f"file{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(chance.choices(lines, k=chance.randint(1, 40))))
    make_repository(work / "repository", lines, chance)
    build(work)
    (work / "made_by").write_text(stamp)


def make_repository(folder, lines, chance):
    if not shutil.which("git"):
        return
    folder.mkdir()
    when = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    run = lambda *what: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *what], cwd=folder, check=True,
                                       capture_output=True, env=dict(os.environ, **when))
    run("init", "-q")
    for commit in range(30):
        for file in range(20):
            (folder / f"file{file}").write_text("\n".join(lines[file * 100:file * 100 + 200] + chance.choices(lines, k=5)))
        run("add", ".")
        run("commit", "-q", "-m", f"commit {commit}")


def build(work):
    """Our own programs, and the library that errs."""
    warn = ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-pthread"]
    subprocess.run([*warn, "-o", work / "threads", HERE / "threads.c"], check=True)
    subprocess.run([*warn, "-fno-builtin", "-shared", "-fPIC", "-o", work / "libplanted.so", ROOT / "crates/pagewise/tests/programs/planted.c"], check=True)
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", work, work / "Words.java"], check=True)


def tasks(work, address):
    """All tasks. `address`: where the server for curl answers."""
    text = str(work / "text")
    threads = str(work / "threads")
    return {
        "ls": Task(["ls", "-lR", "--full-time", str(work / "tree")]),
        "tar": Task(["tar", "-c", "-f", "-", "-C", str(work), "tree"]),
        "gzip": Task(["gzip", "-n", "-c", text]),
        "bzip2": Task(["bzip2", "-c", text]),
        "xz": Task(["xz", "-T2", "-3", "--block-size=1MiB", "-c", text]),
        "sqlite3": Task(["sqlite3", ":memory:", f".read {work}/words.sql"]),
        "sort": Task(["sort", text, text, text]),
        "bash": Task(["bash", "--norc", str(work / "words.sh")], needs=["sort", "head"]),
        "perl": Task(["perl", "-e", PERL, text]),
        "python3": Task(["/usr/bin/python3", str(work / "words.py"), text]),
        "jq": Task(["jq", "-c", "group_by(.name) | map({name: .[0].name, n: length, x: (map(.at.x) | add)}) | sort_by(.n)", str(work / "records.json")]),
        "git": Task(["git", "-C", str(work / "repository"), "log", "-p", "--stat"]),
        "gcc": Task(["gcc", "-O2", "-S", "-o", "-", str(work / "functions.c")], process="cc1"),
        "curl": Task(["curl", "-s", f"{address}/text"]),
        "gdb": Task(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "info functions", "-ex", "break open_parcel",
                     "-ex", "run 1 1", "-ex", "backtrace", "-ex", "info args", "-ex", "kill", threads]),
        "vim": Task(["vim", "-u", "NONE", "-i", "NONE", "-n", "-N", "-es", "-c", "%s/the/THE/ge", "-c", "sort", "-c", "g/nation/m0", "-c", "%print",
                     "-c", "q!", text]),
        "node": Task(["node", str(work / "words.js"), text]),
        "java": Task(["java", "-Xmx256m", "-cp", str(work), "Words", text], needs=["javac"]),
        "redis-server": Task(["redis-server", "--port", "0", "--unixsocket", str(work / "redis.sock"), "--save", "", "--dir", str(work)],
                             is_server=True, needs=["redis-benchmark", "redis-cli"]),
        "200 threads": Task([threads, "200", "400"]),
    }
