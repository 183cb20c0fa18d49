/* Long lists of numbers: JSON text to an array, and an array of few distinct values to JSON text. It does not depend on
 * Python or locales: lightbox/model_runtime/native/numbers.py calls it. It leaves inexact cases to its caller. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 uint128_t;

enum { FLOAT32 = 'f', FLOAT64 = 'd', INT64 = 'q', UINT64 = 'Q' };
enum { EXACT_TENS = 23, EXACT_FIVES = 28 }; /* powers that a double, and 64 bits, hold exactly */
enum { MOST_DIMENSIONS = 256, CELL = 16, MOST_DISTINCT = 2048, SLOTS = 8192, MOST_PROBES = 32 };

typedef struct {
    double ten[EXACT_TENS];
    uint64_t five[EXACT_FIVES];
} Powers;

typedef struct {
    uint64_t digits;
    ptrdiff_t exponent; /* of ten */
    int negative, whole;
} Number;

static int is_digit(char letter) { return letter >= '0' && letter <= '9'; }

static const char *after_blanks(const char *at) {
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') at++;
    return at;
}

/* Returns the end of the digits, NULL for more than 19 significant ones: ten times that can exceed 64 bits. */
static const char *read_digits(const char *at, uint64_t *digits) {
    for (; is_digit(*at); at++) {
        if (*digits >= 1000000000000000000u) return NULL;
        *digits = *digits * 10 + (uint64_t)(*at - '0');
    }
    return at;
}

/* Returns the end of the number that begins at `at`, NULL if there is none or it is too long. */
static const char *read_number(const char *at, Number *number) {
    *number = (Number){.negative = *at == '-', .whole = 1};
    at += number->negative;
    const char *first = at;
    if (!(at = read_digits(at, &number->digits)) || at == first || (*first == '0' && at - first > 1)) return NULL;
    if (*at == '.') {
        first = ++at;
        if (!(at = read_digits(at, &number->digits)) || at == first) return NULL;
        number->exponent = first - at;
        number->whole = 0;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        const int down = *at == '-';
        at += *at == '-' || *at == '+';
        ptrdiff_t exponent = 0;
        for (first = at; is_digit(*at); at++)
            if (exponent < 100000000000000000) exponent = exponent * 10 + (*at - '0'); /* beyond any length */
        if (at == first) return NULL;
        number->exponent += down ? -exponent : exponent;
        number->whole = 0;
    }
    return at;
}

/* The double nearest to `digits` times a power of ten, ties to even. Returns 0 if it is not known. */
static int to_double(const Powers *powers, uint64_t digits, ptrdiff_t exponent, double *value) {
    const ptrdiff_t size = exponent < 0 ? -exponent : exponent;
    if (!digits || (digits >> 53 == 0 && size < EXACT_TENS)) { /* two exact numbers, and one rounding */
        const double ten = powers->ten[digits ? size : 0];
        *value = exponent < 0 ? (double)digits / ten : (double)digits * ten;
        return 1;
    }
    if (size >= EXACT_FIVES) return 0;
    const uint64_t five = powers->five[size];
    if (exponent >= 0) {
        *value = ldexp((double)((uint128_t)digits * five), (int)exponent);
        return 1;
    }
    /* A quotient of 63 or 64 bits, whose last one is set if anything is left: rounding to 53 needs no more. */
    const int up = __builtin_clzll(digits), down = __builtin_clzll(five);
    const uint128_t dividend = (uint128_t)(digits << up) << 63;
    const uint64_t divisor = five << down, quotient = (uint64_t)(dividend / divisor);
    const int rest = (uint128_t)quotient * divisor != dividend;
    *value = ldexp((double)(quotient | (uint64_t)rest), down - up - 63 + (int)exponent);
    return 1;
}

static int store(const Powers *powers, const Number *number, int kind, void *out, size_t at) {
    const uint64_t digits = number->digits;
    if (kind == INT64) {
        if (!number->whole || digits > (uint64_t)INT64_MAX + (uint64_t)number->negative) return 0;
        ((uint64_t *)out)[at] = number->negative ? 0 - digits : digits;
        return 1;
    }
    if (kind == UINT64) {
        if (!number->whole || (number->negative && digits)) return 0;
        ((uint64_t *)out)[at] = digits;
        return 1;
    }
    double value;
    if (!to_double(powers, digits, number->exponent, &value)) return 0;
    if (number->negative && !(number->whole && !digits)) value = -value; /* -0 is an integer */
    if (kind == FLOAT64) ((double *)out)[at] = value;
    else if (fabs(value) < 0x1.ffffffp127) ((float *)out)[at] = (float)value; /* the next one would be infinity */
    else return 0;
    return 1;
}

/* Read the regular list, nested or not, that `text` is: its numbers into `out`, which has room for `room` of `kind`,
 * and its shape, which has room for `most` dimensions. Returns how many these are; 0 for text that is anything else,
 * for a number that the kind does not hold, and for one of more than 19 digits or with an exponent beyond 27. */
int lightbox_read_numbers(const char *text, size_t length, int kind, void *out, size_t room, size_t *shape, int most) {
    if (!length || text[length - 1] != ']' || most > MOST_DIMENSIONS) return 0; /* no step goes beyond this bracket */
    Powers powers = {.ten = {1}, .five = {1}};
    for (int n = 1; n < EXACT_TENS; n++) powers.ten[n] = powers.ten[n - 1] * 10;
    for (int n = 1; n < EXACT_FIVES; n++) powers.five[n] = powers.five[n - 1] * 5;
    const char *at = text, *end = text + length;
    size_t filled = 0, counts[MOST_DIMENSIONS];
    int open = 0, depth = 0;
    for (;;) {
        for (at = after_blanks(at); *at == '['; at = after_blanks(at + 1)) {
            if (open == (depth ? depth : most)) return 0;
            counts[open++] = 0;
        }
        Number number;
        if (!open || (depth && open != depth) || filled == room || !(at = read_number(at, &number))) return 0;
        if (!store(&powers, &number, kind, out, filled++)) return 0;
        if (!depth) memset(shape, 0, (size_t)(depth = open) * sizeof *shape);
        counts[open - 1]++;
        for (at = after_blanks(at); *at == ']'; at = after_blanks(at)) {
            open--;
            if (!shape[open]) shape[open] = counts[open];
            if (shape[open] != counts[open]) return 0;
            if (++at == end) return open ? 0 : depth;
            if (!open) return 0;
            counts[open - 1]++;
        }
        if (*at++ != ',') return 0;
    }
}

/* Give the `count` values their numbers, in the order in which they are met: `index` has that of each one, `distinct`
 * the values. Returns how many there are, 0 for more than MOST_DISTINCT, and for values chosen to share their slots:
 * each would be looked for among all the others. */
size_t lightbox_distinct(const uint32_t *values, size_t count, uint32_t *distinct, uint16_t *index) {
    uint16_t slots[SLOTS] = {0};
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t slot = values[i] * 2654435761u >> 19;
        for (int probes = 0; slots[slot] && distinct[slots[slot] - 1] != values[i]; slot = (slot + 1) % SLOTS)
            if (++probes > MOST_PROBES) return 0;
        if (!slots[slot]) {
            if (found == MOST_DISTINCT) return 0;
            distinct[found] = values[i];
            slots[slot] = (uint16_t)++found;
        }
        index[i] = (uint16_t)(slots[slot] - 1);
    }
    return found;
}

/* How many of the lists of `shape` begin at a row of numbers, and end before it. */
static int brackets(const size_t *shape, int depth, size_t row) {
    int count = 0;
    for (size_t rows = 1; count < depth && row % rows == 0; count++)
        if (count < depth - 1) rows *= shape[depth - 2 - count];
    return count;
}

/* Write the nested list of `shape`, no size of which is 0, whose values have these numbers among `texts`, cells of
 * `lengths` bytes that count. Returns how many bytes `out` has then, 0 where `room` is not enough: CELL bytes more. */
size_t lightbox_write_numbers(const uint16_t *index, const size_t *shape, int depth, const char *texts,
                              const uint8_t *lengths, char *out, size_t room) {
    const size_t inner = shape[depth - 1];
    size_t rows = 1;
    for (int level = 0; level < depth - 1; level++) rows *= shape[level];
    char *to = out;
    for (size_t row = 0; row < rows; row++) {
        if (room - (size_t)(to - out) < inner * (CELL + 1) + 2 * (size_t)depth + CELL) return 0;
        for (int n = brackets(shape, depth, row); n; n--) *to++ = '[';
        for (size_t i = 0; i < inner; i++, index++) {
            memcpy(to, texts + (size_t)*index * CELL, CELL);
            to += lengths[*index];
            *to++ = ',';
        }
        to--; /* the last comma */
        for (int n = brackets(shape, depth, row + 1); n; n--) *to++ = ']';
        *to++ = ',';
    }
    return (size_t)(to - out) - 1;
}
