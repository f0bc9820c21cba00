/* yaml2json FILE: print a YAML document as JSON, members in their order. For the build alone: the
 * API's description is written in YAML and served in JSON. Plain scalars are typed by YAML 1.2's
 * core schema (so `yes` is a string); tags are refused. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static const char *path;

__attribute__((noreturn, format(printf, 2, 3))) static void fail(size_t line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%zu: ", path, line + 1);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static json_t *must(json_t *v)
{
	if (!v)
		fail(0, "no memory, or text that is not UTF-8");
	return v;
}

/* A number by the core schema, or NULL. */
static json_t *number_of(const char *text)
{
	size_t digits = strspn(text + (*text == '-' || *text == '+'), "0123456789");
	char *end;

	if (!digits)
		return NULL;
	errno = 0;
	long long integer = strtoll(text, &end, 10);
	if (!*end && !errno)
		return json_integer(integer);
	double real = strtod(text, &end);
	return *end || errno || strpbrk(text, "xXnN") ? NULL : json_real(real);
}

static json_t *scalar(const yaml_node_t *n)
{
	const char *text = (const char *)n->data.scalar.value;
	json_t *number;

	if (n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return must(json_stringn(text, n->data.scalar.length));
	if (!*text || !strcmp(text, "~") || !strcmp(text, "null"))
		return must(json_null());
	if (!strcmp(text, "true") || !strcmp(text, "false"))
		return must(json_boolean(*text == 't'));
	number = number_of(text);
	return number ? number : must(json_stringn(text, n->data.scalar.length));
}

static json_t *value(yaml_document_t *doc, int index)
{
	const yaml_node_t *n = yaml_document_get_node(doc, index);
	json_t *v;

	if (strncmp((const char *)n->tag, "tag:yaml.org,2002:", 18) != 0)
		fail(n->start_mark.line, "a tag");
	if (n->type == YAML_SCALAR_NODE)
		return scalar(n);
	if (n->type == YAML_SEQUENCE_NODE) {
		v = must(json_array());
		for (const yaml_node_item_t *i = n->data.sequence.items.start;
		     i < n->data.sequence.items.top; i++)
			if (json_array_append_new(v, value(doc, *i)))
				fail(n->start_mark.line, "no memory");
		return v;
	}
	v = must(json_object());
	for (const yaml_node_pair_t *i = n->data.mapping.pairs.start; i < n->data.mapping.pairs.top;
	     i++) {
		const yaml_node_t *key = yaml_document_get_node(doc, i->key);
		if (key->type != YAML_SCALAR_NODE)
			fail(key->start_mark.line, "a key that is no scalar");
		if (json_object_get(v, (const char *)key->data.scalar.value))
			fail(key->start_mark.line, "%s is there twice", key->data.scalar.value);
		if (json_object_set_new(v, (const char *)key->data.scalar.value,
					value(doc, i->value)))
			fail(key->start_mark.line, "no memory");
	}
	return v;
}

int main(int argc, char **argv)
{
	yaml_parser_t parser;
	yaml_document_t doc;

	path = argc == 2 ? argv[1] : "yaml2json";
	FILE *f = argc == 2 ? fopen(path, "rb") : NULL;
	if (!f || !yaml_parser_initialize(&parser))
		fail(0, "%s", argc == 2 ? strerror(errno) : "usage: yaml2json FILE");
	yaml_parser_set_input_file(&parser, f);
	if (!yaml_parser_load(&parser, &doc))
		fail(parser.problem_mark.line, "%s", parser.problem);
	if (!yaml_document_get_root_node(&doc))
		fail(0, "it is empty");
	json_t *all = value(&doc, 1);
	if (json_dumpf(all, stdout, JSON_COMPACT) || fflush(stdout))
		fail(0, "cannot be written: %s", strerror(errno));
	json_decref(all);
	yaml_document_delete(&doc);
	yaml_parser_delete(&parser);
	fclose(f);
	return 0;
}
