// The files of the console, as they were in Sources/Admin/Console at build time. The compiler reads them by #embed, in
// milliseconds; an array literal of the same bytes takes the Swift compiler half a minute.
#pragma once
#include <stddef.h>

typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} cconsole_file;

// The file of this number, from 0; name is NULL behind the last.
cconsole_file cconsole_file_at(size_t number);
