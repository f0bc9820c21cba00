/* The API's description in JSON, made of openapi.yaml by the build and embedded in the program. */
#pragma once

/** OpenAPI 3.1; ends with NUL. Thread: any. */
extern const char openapi_json[];
