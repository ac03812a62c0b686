# Turns the tokens of a JSON document, one per line, into lines of path, tab and value:
#   .summary.swap_ins<TAB>3921      .objects[0].name<TAB>"first"
# The guest has busybox only, so `run` splits the tokens with grep.

function path(    level, text) {
    text = ""
    for (level = 1; level <= depth; level++)
        text = text (kind[level] == "{" ? "." key[level] : "[" place[level] "]")
    return text
}

function value(text) {
    print path() "\t" text
}

$0 == "{" || $0 == "[" {
    kind[++depth] = $0
    place[depth] = 0
    await_key[depth] = $0 == "{"
    next
}
$0 == "}" || $0 == "]" { depth--; next }
$0 == "," { place[depth]++; await_key[depth] = kind[depth] == "{"; next }
$0 == ":" { await_key[depth] = 0; next }
await_key[depth] { key[depth] = substr($0, 2, length($0) - 2); next }
{ value($0) }
