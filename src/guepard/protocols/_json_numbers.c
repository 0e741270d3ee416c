/* JSON text of numbers into the memory of a tensor, without the interpreter's lock.
 *
 * It takes what is plainly right and nothing else: whatever it stops at is left to the path in Python, which decides
 * and says why. So it needs no messages, and cannot disagree about what is wrong.
 *
 * Floats are read as the nearest double, ties to even, and then cast to the datatype, as Python and numpy do:
 * exactly where mantissa and power of ten are (Clinger), else by a product of 128 bits with a table of powers of five
 * (Eisel and Lemire), else by the C library.
 * Sources: W. D. Clinger, "How to Read Floating Point Numbers Accurately", 1990; D. Lemire, "Number Parsing at a
 * Gigabyte per Second", 2021; RFC 8259 section 6.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#if !defined(__SIZEOF_INT128__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "needs 128-bit integers and a little-endian machine"
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define RARELY_CALLED __attribute__((noinline, cold))
#define ALWAYS_INLINE inline __attribute__((always_inline))

#define MAX_DEPTH 32
#define MAX_TOKEN 128
#define POWER_LIMIT 80 /* the table holds 5**-POWER_LIMIT to 5**POWER_LIMIT */

static uint64_t powers_of_five[2 * POWER_LIMIT + 1][2]; /* high and low half of 128 bits, the topmost set */
static locale_t c_locale;

static const double exact_powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

static inline int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static inline const char *skip_space(const char *p, const char *end) {
    if (p < end && (unsigned char)*p > ' ') return p;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

static const uint64_t whole_powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

/* Eight digits, less their '0' each, as a number: pairs of them, then pairs of pairs. */
static ALWAYS_INLINE uint64_t eight_digits(uint64_t word) {
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF;
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF;
    return (word * 10000 + (word >> 32)) & 0x00000000FFFFFFFF;
}

/* Eight characters, less '0' each, and in `others` a bit for each that is no digit. */
static ALWAYS_INLINE uint64_t eight_characters(const char *p, uint64_t *others) {
    uint64_t word;
    memcpy(&word, p, 8);
    word ^= 0x3030303030303030;
    *others = (((word & 0x7F7F7F7F7F7F7F7F) + 0x7676767676767676) | word) & 0x8080808080808080;
    return word;
}

/* Digits from `p` on, appended to `mantissa`, which may overflow: who counts them, knows.
 * Eight characters at a time. How many of the last ones are digits nothing could foretell: there is no branch on it. */
static ALWAYS_INLINE const char *read_digits(const char *p, const char *end, uint64_t *mantissa) {
    uint64_t value = *mantissa;
    while (end - p >= 8) {
        uint64_t others, word = eight_characters(p, &others);
        if (others) {
            int bits = __builtin_ctzll(others) & ~7;
            word = word << 8 << (56 - bits); /* the digits at the top, zeros before them */
            *mantissa = value * whole_powers[bits >> 3] + eight_digits(word);
            return p + (bits >> 3);
        }
        value = value * 100000000 + eight_digits(word);
        p += 8;
    }
    while (p < end && is_digit(*p)) value = value * 10 + (uint64_t)(*p++ - '0');
    *mantissa = value;
    return p;
}

/* mantissa * 10**exponent as the bits of the nearest double; 0 where this method cannot tell. */
static ALWAYS_INLINE int nearest_double(uint64_t mantissa, int exponent, double *value) {
    if (exponent < -POWER_LIMIT || exponent > POWER_LIMIT) return 0;
    const uint64_t *power = powers_of_five[exponent + POWER_LIMIT];
    int shift = __builtin_clzll(mantissa);
    mantissa <<= shift;
    unsigned __int128 product = (unsigned __int128)mantissa * power[0];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if ((high & 0x1FF) == 0x1FF) { /* what the lower half of the power adds may carry into the bits that count */
        uint64_t more = (uint64_t)(((unsigned __int128)mantissa * power[1]) >> 64);
        low += more;
        if (low < more) high++;
    }
    if (low == UINT64_MAX && (exponent < -27 || exponent > 55)) return 0;
    int top = (int)(high >> 63);
    uint64_t bits = high >> (top + 9); /* 53 bits and one to round by */
    /* floor(exponent * log2(10)), by a fraction that is near enough in this range */
    int binary = ((217706 * exponent) >> 16) + 63 + top - shift + 1023;
    if (binary <= 0) return 0;
    /* Half way between two doubles, exactly: to the even one. */
    if (low <= 1 && exponent >= -4 && exponent <= 23 && (bits & 3) == 1 && bits << (top + 9) == high) bits &= ~1ULL;
    bits += bits & 1;
    bits >>= 1;
    if (bits >= 1ULL << 53) {
        bits = 1ULL << 52;
        binary++;
    }
    if (binary >= 0x7FF) return 0;
    bits = (bits & ~(1ULL << 52)) | (uint64_t)binary << 52;
    memcpy(value, &bits, sizeof bits);
    return 1;
}

static int by_library(const char *start, const char *stop, double *value) {
    char token[MAX_TOKEN];
    size_t size = (size_t)(stop - start);
    if (size >= MAX_TOKEN) return 0;
    memcpy(token, start, size);
    token[size] = 0;
    char *ended;
    *value = strtod_l(token, &ended, c_locale);
    return ended == token + size;
}

/* Digits from `first` to `stop` that count: not the zeros before them. The point, if within, is taken for one. */
static int64_t count_digits(const char *first, const char *stop) {
    while (first < stop && (*first == '0' || *first == '.')) first++;
    return stop - first;
}

/* A number as JSON spells it, in any of its forms. NULL for anything else. */
static RARELY_CALLED const char *read_any_double(const char *p, const char *end, double *value) {
    const char *start = p;
    int negative = p < end && *p == '-';
    p += negative;
    const char *first = p;
    uint64_t mantissa = 0;
    while (p < end && is_digit(*p)) mantissa = mantissa * 10 + (uint64_t)(*p++ - '0');
    if (p == first || (*first == '0' && p - first > 1)) return NULL;
    int64_t digits = p - first;
    int64_t exponent = 0;
    int whole = 1;
    if (p < end && *p == '.') {
        whole = 0;
        const char *fraction = ++p;
        p = read_digits(p, end, &mantissa);
        exponent = fraction - p;
        if (!exponent) return NULL;
        digits -= exponent;
    }
    if (digits > 19) digits = count_digits(first, p);
    if (p < end && (*p | 0x20) == 'e') {
        whole = 0;
        p++;
        int below = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+')) p++;
        const char *power = p;
        int64_t written = 0;
        while (p < end && is_digit(*p)) {
            if (written < 100000) written = written * 10 + (*p - '0');
            p++;
        }
        if (p == power) return NULL;
        exponent += below ? -written : written;
    }
    double found;
    if (mantissa == 0 && digits <= 19) {
        if (negative && whole) return NULL; /* an integer of JSON, which has no sign of zero: not for here */
        found = 0.0;
    } else if (digits > 19 || exponent < INT32_MIN || exponent > INT32_MAX ||
               !nearest_double(mantissa, (int)exponent, &found)) {
        return by_library(start, p, value) ? p : NULL;
    }
    *value = negative ? -found : found;
    return p;
}

/* The same, fast for digits with a point among them. Its branches are such as go the same way for all numbers of a
 * kind, whatever their signs and first digits. */
static ALWAYS_INLINE const char *read_double(const char *p, const char *end, double *value) {
    const char *start = p;
    if (end - p < 2) return read_any_double(start, end, value);
    int negative = *p == '-';
    p += negative;
    const char *first = p;
    uint64_t mantissa = 0;
    int64_t fraction = 0;
    while (p < end && is_digit(*p)) mantissa = mantissa * 10 + (uint64_t)(*p++ - '0');
    int64_t digits = p - first;
    if (LIKELY(p < end && *p == '.')) {
        const char *point = p++;
        p = read_digits(p, end, &mantissa);
        fraction = p - point - 1;
        if (!fraction) return NULL;
    }
    int is_odd = (digits == 0) | ((*first == '0') & (digits > 1)) | (digits + fraction > 19) | (mantissa == 0);
    if (is_odd || (p < end && (*p | 0x20) == 'e')) return read_any_double(start, end, value);
    double found;
    if (digits + fraction <= 15)
        found = (double)mantissa / exact_powers[fraction];
    else if (!nearest_double(mantissa, (int)-fraction, &found))
        return read_any_double(start, end, value);
    *value = negative ? -found : found;
    return p;
}

static RARELY_CALLED const char *read_any_float(const char *p, const char *end, double bound, float *value) {
    double found;
    p = read_any_double(p, end, &found);
    if (!p || !(found < bound && found > -bound)) return NULL;
    *value = (float)found;
    return p;
}

#define ABOUT(power, error) (power * (1 + (error) * 0x1p-50))
#define TENTHS(error)                                                                                                  \
    {ABOUT(1e0, error),   ABOUT(1e-1, error),  ABOUT(1e-2, error),  ABOUT(1e-3, error),  ABOUT(1e-4, error),            \
     ABOUT(1e-5, error),  ABOUT(1e-6, error),  ABOUT(1e-7, error),  ABOUT(1e-8, error),  ABOUT(1e-9, error),            \
     ABOUT(1e-10, error), ABOUT(1e-11, error), ABOUT(1e-12, error), ABOUT(1e-13, error), ABOUT(1e-14, error),           \
     ABOUT(1e-15, error), ABOUT(1e-16, error)}

static const double tenths_below[] = TENTHS(-1), tenths_above[] = TENTHS(1);

/* What a float has to be known to is less than a double: sixteen places after the point say that the number lies
 * between two doubles, and as a rule both are the same float. Then so is the nearest double, whichever it is.
 * Five roundings, of 2**-53 each at most, lie within the 2**-50 by which the two are apart from the number. */
static ALWAYS_INLINE const char *read_float(const char *p, const char *end, double bound, float *value) {
    const char *start = p;
    if (end - p < 64) return read_any_float(start, end, bound, value);
    int negative = *p == '-';
    p += negative;
    const char *first = p;
    uint64_t mantissa = 0;
    while (is_digit(*p) && p - first < 4) mantissa = mantissa * 10 + (uint64_t)(*p++ - '0');
    int64_t digits = p - first, places = 0;
    uint64_t others, word, more = 0;
    if (LIKELY(*p == '.')) {
        word = eight_characters(++p, &others);
        if (!others) {
            mantissa = mantissa * 100000000 + eight_digits(word);
            word = eight_characters(p += 8, &others);
            places = 8;
        }
        if (!others) {
            mantissa = mantissa * 100000000 + eight_digits(word);
            places = 16;
            eight_characters(p += 8, &others);
            if (!others) return read_any_float(start, end, bound, value);
            more = (uint64_t)__builtin_ctzll(others) >> 3;
            p += more;
            more = more != 0;
        } else {
            int bits = __builtin_ctzll(others) & ~7;
            mantissa = mantissa * whole_powers[bits >> 3] + eight_digits(word << 8 << (56 - bits));
            places += bits >> 3;
            p += bits >> 3;
        }
    }
    /* Nothing before or after the point, a zero before other digits, -0, too many digits, an exponent. */
    int is_odd = (digits == 0) | ((*first == '0') & (digits > 1)) | (digits + places > 18) | ((*p | 0x20) == 'e') |
                 ((places == 0) & ((p[-1] == '.') | (negative & (mantissa == 0)))) | (is_digit(*p) != 0);
    float below = (float)((double)(int64_t)mantissa * tenths_below[places]);
    float above = (float)((double)(int64_t)(mantissa + more) * tenths_above[places]);
    if (is_odd || below != above) return read_any_float(start, end, bound, value);
    *value = negative ? -below : below;
    return p;
}

/* An integer without fraction and exponent, of at most 64 bits and a sign. NULL for anything else. */
static const char *read_integer(const char *p, const char *end, uint64_t *magnitude, int *negative) {
    *negative = p < end && *p == '-';
    p += *negative;
    const char *first = p;
    uint64_t value = 0;
    p = read_digits(p, end, &value);
    if (p - first > 19) { /* the twentieth digit may be one too many */
        if (p - first > 20 || *first != '1' || value < 10000000000000000000u) return NULL;
    }
    if (p == first || (*first == '0' && (p - first > 1 || *negative))) return NULL;
    *magnitude = value;
    return p;
}

static const char *read_bool(const char *p, const char *end, uint8_t *value) {
    if (end - p >= 4 && memcmp(p, "true", 4) == 0) return *value = 1, p + 4;
    if (end - p >= 5 && memcmp(p, "false", 5) == 0) return *value = 0, p + 5;
    if (p < end && (*p == '0' || *p == '1')) return *value = (uint8_t)(*p - '0'), p + 1;
    return NULL;
}

/* A bit for each comma among the 64 characters from `p` on. */
static ALWAYS_INLINE uint64_t find_commas(const char *p) {
    uint64_t found = 0;
    for (int at = 0; at < 64; at += 8) {
        uint64_t word;
        memcpy(&word, p + at, 8);
        word ^= 0x2C2C2C2C2C2C2C2C;
        word = ~(((word & 0x7F7F7F7F7F7F7F7F) + 0x7F7F7F7F7F7F7F7F) | word) & 0x8080808080808080;
        found |= (word >> 7) * 0x0102040810204080 >> 56 << at; /* the bits of eight bytes side by side */
    }
    return found;
}

/* `count` elements between commas from `p` on, to `out`. NULL where they are not all there.
 * The loop is written out for each kind of element, so that the choice stands outside of it. */
#define ELEMENTS(READ, STORE, TYPE)                                                                                    \
    for (Py_ssize_t index = 0; index < count; index++) {                                                               \
        if (index) {                                                                                                   \
            if (p >= end || *p != ',') return NULL;                                                                    \
            p++;                                                                                                       \
        }                                                                                                              \
        p = skip_space(p, end);                                                                                        \
        READ;                                                                                                          \
        if (!p) return NULL;                                                                                           \
        TYPE element;                                                                                                  \
        STORE;                                                                                                         \
        memcpy(out, &element, sizeof element);                                                                         \
        out += sizeof element;                                                                                         \
        p = skip_space(p, end);                                                                                        \
    }                                                                                                                  \
    return p

/* Integers, as long as 64 characters and more are left: where the commas are is found first, so that no number waits for
 * the one before. Those of up to eight digits are read without a branch. What remains is left to ELEMENTS. */
#define INTEGERS(TYPE, IS_SIGNED, MOST)                                                                                \
    do {                                                                                                               \
        uint64_t wrong = 0;                                                                                            \
        for (const char *block = p; count > 64 && end - block >= 64 + 8; block += 64) {                                \
            for (uint64_t commas = find_commas(block); commas; commas &= commas - 1) {                                 \
                const char *stop = block + __builtin_ctzll(commas), *first = p + (*p == ' ');                          \
                negative = IS_SIGNED && *first == '-';                                                                 \
                first += negative;                                                                                     \
                size_t length = (size_t)(stop - first);                                                                \
                if (LIKELY(length - 1 < 8)) {                                                                          \
                    uint64_t word, others;                                                                             \
                    memcpy(&word, first, 8);                                                                           \
                    word = (word ^ 0x3030303030303030) << (64 - 8 * length);                                           \
                    others = (((word & 0x7F7F7F7F7F7F7F7F) + 0x7676767676767676) | word) & 0x8080808080808080;         \
                    wrong |= others | ((*first == '0') & ((length > 1) | negative));                                   \
                    magnitude = eight_digits(word);                                                                    \
                } else {                                                                                               \
                    const char *stopped = read_integer(skip_space(p, end), end, &magnitude, &negative);                \
                    if (!stopped || skip_space(stopped, end) != stop || (negative && !IS_SIGNED)) return NULL;         \
                }                                                                                                      \
                wrong |= magnitude > (uint64_t)(MOST) + (uint64_t)negative;                                            \
                TYPE element = negative ? (TYPE)(0 - magnitude) : (TYPE)magnitude;                                     \
                memcpy(out, &element, sizeof element);                                                                 \
                out += sizeof element;                                                                                 \
                p = stop + 1;                                                                                          \
                count--;                                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        if (wrong) return NULL;                                                                                        \
    } while (0);                                                                                                       \
    ELEMENTS(p = read_integer(p, end, &magnitude, &negative),                                                          \
             if ((negative && !IS_SIGNED) || magnitude > (uint64_t)(MOST) + (uint64_t)negative) return NULL;           \
             element = negative ? (TYPE)(0 - magnitude) : (TYPE)magnitude, TYPE)

static const char *read_elements(const char *p, const char *end, char kind, double bound, char *out, Py_ssize_t count) {
    double real = 0;
    float single = 0;
    uint64_t magnitude = 0;
    int negative = 0;
    uint8_t truth = 0;
    switch (kind) {
    case 'f': ELEMENTS(p = read_float(p, end, bound, &single), element = single, float);
    case 'd': ELEMENTS(p = read_double(p, end, &real), if (!(real < bound && real > -bound)) return NULL;
                       element = real, double);
    case 'b': INTEGERS(int8_t, 1, INT8_MAX);
    case 'h': INTEGERS(int16_t, 1, INT16_MAX);
    case 'i': INTEGERS(int32_t, 1, INT32_MAX);
    case 'q': INTEGERS(int64_t, 1, INT64_MAX);
    case 'B': INTEGERS(uint8_t, 0, UINT8_MAX);
    case 'H': INTEGERS(uint16_t, 0, UINT16_MAX);
    case 'I': INTEGERS(uint32_t, 0, UINT32_MAX);
    case 'Q': INTEGERS(uint64_t, 0, UINT64_MAX);
    case '?': ELEMENTS(p = read_bool(p, end, &truth), element = truth, uint8_t);
    default: return NULL;
    }
}

/* Lists nested as `dims` say, the innermost of numbers. */
static int read_lists(const char *p, const char *end, char kind, double bound, const Py_ssize_t *dims, int depth,
                      char *out, size_t size) {
    Py_ssize_t done[MAX_DEPTH] = {0};
    int level = 0;
    for (;;) {
        for (; level < depth; level++) {
            p = skip_space(p, end);
            if (p >= end || *p != '[') return 0;
            p++;
            done[level] = 0;
        }
        p = read_elements(p, end, kind, bound, out, dims[depth - 1]);
        if (!p) return 0;
        out += size * (size_t)dims[depth - 1];
        for (;;) {
            p = skip_space(p, end);
            if (p >= end || *p != ']') return 0;
            p++;
            if (--level == 0) return skip_space(p, end) == end;
            if (++done[level - 1] < dims[level - 1]) break;
        }
        p = skip_space(p, end);
        if (p >= end || *p != ',') return 0;
        p++;
    }
}

static size_t size_of(char kind) {
    switch (kind) {
    case '?': case 'b': case 'B': return 1;
    case 'h': case 'H': return 2;
    case 'f': case 'i': case 'I': return 4;
    case 'd': case 'q': case 'Q': return 8;
    default: return 0;
    }
}

PyDoc_STRVAR(read_doc,
             "read(text, dims, kind, bound, out) -> bool\n\n"
             "Whether `text` is lists of numbers nested as `dims` say; `out` then holds them, row-major.\n\n"
             "`kind` is the code of the element in the struct module. Floats lie strictly between -bound and bound.\n"
             "False decides nothing about the text; `out` is then of no use. Raises: ValueError for arguments that do\n"
             "not fit one another. The interpreter's lock is not held while reading.");

static PyObject *read_numbers(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer text, out;
    PyObject *shape;
    int kind;
    double bound;
    if (!PyArg_ParseTuple(arguments, "y*O!Cdw*:read", &text, &PyTuple_Type, &shape, &kind, &bound, &out)) return NULL;
    Py_ssize_t dims[MAX_DEPTH];
    Py_ssize_t depth = PyTuple_GET_SIZE(shape);
    size_t size = kind < 128 ? size_of((char)kind) : 0;
    PyObject *result = NULL;
    size_t room = size ? (size_t)out.len / size : 0;
    int fits = size && depth >= 1 && depth <= MAX_DEPTH;
    for (Py_ssize_t index = 0; fits && index < depth; index++) {
        dims[index] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, index));
        if (dims[index] == -1 && PyErr_Occurred()) goto done;
        fits = dims[index] > 0 && (size_t)dims[index] <= room;
        if (fits) room /= (size_t)dims[index];
    }
    if (fits) {
        size_t count = 1;
        for (Py_ssize_t index = 0; index < depth; index++) count *= (size_t)dims[index];
        fits = count * size == (size_t)out.len;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "dims, kind and out do not fit one another");
        goto done;
    }
    int good;
    Py_BEGIN_ALLOW_THREADS;
    good = read_lists(text.buf, (const char *)text.buf + text.len, (char)kind, bound, dims, (int)depth, out.buf, size);
    Py_END_ALLOW_THREADS;
    result = PyBool_FromLong(good);
done:
    PyBuffer_Release(&text);
    PyBuffer_Release(&out);
    return result;
}

/* The 128 topmost bits of 5**power: cut off where it is whole, rounded up where it is a fraction. */
static int fill_powers(void) {
    PyObject *scope = PyDict_New();
    if (!scope) return -1;
    PyDict_SetItemString(scope, "__builtins__", PyEval_GetBuiltins());
    static const char source[] =
        "def top(power):\n"
        "    if power >= 0:\n"
        "        whole = 5 ** power\n"
        "        return whole << 128 >> whole.bit_length()\n"
        "    part = 5 ** -power\n"
        "    return (1 << part.bit_length() + 127) // part + 1\n"
        "table = b''.join(\n"
        "    word.to_bytes(8, 'little')\n"
        "    for power in range(-limit, limit + 1)\n"
        "    for word in divmod(top(power), 1 << 64))\n";
    PyObject *limit = PyLong_FromLong(POWER_LIMIT);
    int failed = !limit || PyDict_SetItemString(scope, "limit", limit) < 0;
    Py_XDECREF(limit);
    PyObject *ran = failed ? NULL : PyRun_String(source, Py_file_input, scope, scope);
    PyObject *table = ran ? PyDict_GetItemString(scope, "table") : NULL;
    int done = table && PyBytes_Check(table) && PyBytes_GET_SIZE(table) == (Py_ssize_t)sizeof powers_of_five;
    if (done) memcpy(powers_of_five, PyBytes_AS_STRING(table), sizeof powers_of_five);
    Py_XDECREF(ran);
    Py_DECREF(scope);
    if (!done && !PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "the table of powers was not made");
    return done ? 0 : -1;
}

static int set_up(PyObject *module) {
    (void)module;
    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) {
        PyErr_SetString(PyExc_ImportError, "no C locale");
        return -1;
    }
    return fill_powers();
}

static PyMethodDef methods[] = {{"read", read_numbers, METH_VARARGS, read_doc}, {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)set_up}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "guepard.protocols._json_numbers",
    .m_doc = "JSON text of numbers into memory.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__json_numbers(void) { return PyModuleDef_Init(&definition); }
