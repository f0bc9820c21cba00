/* The assembler puts the bytes here; the build's directory of generated files is in its path. */
#include "schema/openapi.h"

__asm__(".pushsection .rodata\n"
	"\t.globl openapi_json\n"
	"openapi_json:\n"
	"\t.incbin \"openapi.json\"\n"
	"\t.byte 0\n"
	"\t.popsection\n");
