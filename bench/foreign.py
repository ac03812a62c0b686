"""Programs that are not in this repository, as bench/predict and bench/apply/run start them: each a function of a folder for
its files that gives the command. All are the same work in each run.
"""
import random

SQL = """PRAGMA temp_store = memory; PRAGMA cache_size = -800000;
CREATE TABLE t(x INTEGER PRIMARY KEY, k INTEGER, payload TEXT);
INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 800000)
  SELECT x, (x * 7919) % 800011, printf('%0100d', x) FROM c;
CREATE INDEX i ON t(k);
WITH RECURSIVE c(n, k) AS (SELECT 0, 1 UNION ALL SELECT n + 1, (k * 48271 + 11) % 800011 FROM c WHERE n < 300000)
  SELECT sum(length(payload)) FROM c JOIN t ON t.k = c.k;
SELECT count(*), sum(k) FROM t WHERE payload > '5';
WITH RECURSIVE c(n, k) AS (SELECT 0, 1 UNION ALL SELECT n + 1, (k * 48271 + 11) % 80001 FROM c WHERE n < 600000)
  SELECT sum(length(payload)) FROM c JOIN t ON t.k = c.k;
"""

REDIS = """
rm -f {0}/redis.sock
redis-server --port 0 --unixsocket {0}/redis.sock --save '' --dir {0} --logfile {0}/redis.log & server=$!
while ! [ -S {0}/redis.sock ]; do sleep 0.05; done
redis-benchmark -s {0}/redis.sock -q -n 150000 -r 100000 -d 1000 -c 8 -P 4 -t set > /dev/null &&
redis-benchmark -s {0}/redis.sock -q -n 600000 -r 100000 -c 8 -P 4 -t get > /dev/null
status=$?
redis-cli -s {0}/redis.sock shutdown nosave
wait $server && exit $status
"""


PYTHON = """
import random
chosen = random.Random(2)
index = {}
for number in range(500_000):
    index.setdefault(chosen.randrange(300_000), []).append(str(number))
total = sum(len(word) for key in sorted(index) for word in index[key])
for _ in range(1_000_000):
    key = int(300_000 * chosen.random() ** 2)
    words = index.get(key)
    if words:
        total += len(words[-1])
print(total)
"""


def sort(folder):
    """Lines at random, sorted in memory."""
    path = folder / "lines"
    if not path.exists():
        chosen = random.Random(5)
        path.write_text("".join(f"{chosen.getrandbits(64):x} {number}\n" for number in range(2_000_000)))
    return ["env", "LC_ALL=C", "sort", "-S", "1G", "--parallel=1", "-o", "/dev/null", path]


def sqlite(folder):
    """A table and its index in memory, looked up and scanned."""
    (folder / "queries.sql").write_text(SQL)
    return ["sqlite3", ":memory:", f".read {folder}/queries.sql"]


def redis(folder):
    """A server and its load, in one shell. How fast it was is not told, as outputs are compared."""
    return ["sh", "-c", REDIS.format(folder)]


def python(_):
    """A dictionary of lists of words, looked up at random."""
    return ["env", "PYTHONHASHSEED=0", "python3", "-c", PYTHON]
