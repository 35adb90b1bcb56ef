// Marks what the library exports; the version script, made from the same table, lists it too.
#pragma once

#define NCCLWATCH_EXPORT __attribute__((visibility("default")))
