# From what --help prints to the OPTIONS of a man page: a line "  --name VALUE   text", and lines below it
# that are set in.
function roff(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return text
}

function flush_option() {
	if (head != "")
		printf ".TP\n\\fB%s\\fR\n%s\n", roff(head), roff(text)
	head = ""
}

/^  -/ {
	flush_option()
	rest = substr($0, 3)
	at = match(rest, /   *[^ ]/)
	head = at ? substr(rest, 1, at - 1) : rest
	text = at ? substr(rest, at) : ""
	sub(/^ */, "", text)
	next
}

/^          / && head != "" {
	sub(/^ */, "")
	text = text (text == "" ? "" : " ") $0
	next
}

{ flush_option() }

END { flush_option() }
