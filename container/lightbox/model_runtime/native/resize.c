/* Pillow's 8-bit resize with the same bits: fixed-point coefficients, two passes, each rounded to 8 bits.
 * It does not depend on Python: lightbox/images/resize.py calls it. AVX2, AVX-512 VNNI and NEON are used where the
 * CPU has them. */
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { DONE = 0, NO_MEMORY = 1, REFUSED = 2 };
enum { PLAIN = 0, AVX2 = 1, NEON = 2, VNNI = 3 };
enum { BITS = 22, LOW_BITS = 15, MOST = 65535 };

/* The data of one axis: for each target position the first source position and `taps` coefficients. They are kept
 * whole, as two 16-bit parts whose sum, the high one shifted by LOW_BITS, is the whole, and as three digits of 8 bits,
 * signed, the lowest first. */
typedef struct {
    int taps;
    int digits_fit; /* whether three digits are enough for every coefficient: all are below 2 */
    int inside; /* whether `taps` positions from each first one lie in the source */
    int *first;
    int32_t *whole;
    int16_t *high, *low;
    int8_t *digit[3];
} Axis;

static double sinc(double x) {
    if (x == 0.0) return 1.0;
    x *= M_PI;
    return sin(x) / x;
}

static double weight(int filter, double x) {
    const double a = -0.5;
    switch (filter) {
    case 0: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case 1: x = fabs(x); return x < 1.0 ? 1.0 - x : 0.0;
    case 2:
        x = fabs(x);
        if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
        return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
    default: return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    }
}

static void free_axis(Axis *axis) {
    free(axis->first);
    free(axis->whole);
    free(axis->high);
    free(axis->low);
    for (int d = 0; d < 3; d++) free(axis->digit[d]);
}

/* The source has `source` pixels and becomes `whole`, of which `target` are made: those from `start` on. */
static int make_axis(Axis *axis, int source, int whole, int start, int target, int filter, int together) {
    static const double reach[] = {0.5, 1.0, 2.0, 3.0};
    const double scale = (double)source / whole;
    const double wide = scale < 1.0 ? 1.0 : scale;
    const double support = reach[filter] * wide, narrow = 1.0 / wide;
    const int most = (int)ceil(support) * 2 + 1, taps = (most + together - 1) / together * together;
    const size_t count = (size_t)target * (size_t)taps;
    double *weights = malloc((size_t)taps * sizeof *weights);
    axis->taps = taps;
    axis->inside = source >= taps;
    axis->first = malloc((size_t)target * sizeof *axis->first);
    axis->whole = calloc(count, sizeof *axis->whole);
    axis->high = calloc(count, sizeof *axis->high);
    axis->low = calloc(count, sizeof *axis->low);
    axis->digits_fit = 1;
    for (int d = 0; d < 3; d++) axis->digit[d] = calloc(count, 1);
    if (!weights || !axis->first || !axis->whole || !axis->high || !axis->low || !axis->digit[0] || !axis->digit[1] ||
        !axis->digit[2]) {
        free(weights);
        return NO_MEMORY;
    }
    for (int i = 0; i < target; i++) {
        const double centre = (start + i + 0.5) * scale;
        double sum = 0.0;
        int first = (int)(centre - support + 0.5), last = (int)(centre + support + 0.5);
        if (first < 0) first = 0;
        if (last > source) last = source;
        int used = last - first;
        if (used > most) used = most;
        for (int j = 0; j < used; j++) {
            weights[j] = weight(filter, (j + first - centre + 0.5) * narrow);
            sum += weights[j];
        }
        /* Near the end the window moves back, with zeros before it, so that no tap lies outside. */
        int moved = first + taps > source ? first + taps - source : 0;
        if (!axis->inside) moved = first;
        axis->first[i] = first - moved;
        for (int j = 0; j < used && moved + j < taps; j++) {
            const double k = sum != 0.0 ? weights[j] / sum : weights[j];
            const int32_t fixed = (int32_t)((k < 0 ? -0.5 : 0.5) + k * (1 << BITS));
            const size_t at = (size_t)i * taps + moved + j;
            axis->whole[at] = fixed;
            axis->high[at] = (int16_t)(fixed >> LOW_BITS);
            axis->low[at] = (int16_t)(fixed & ((1 << LOW_BITS) - 1));
            int32_t rest = fixed;
            for (int d = 0; d < 3; d++) {
                axis->digit[d][at] = (int8_t)(((rest & 255) ^ 128) - 128);
                rest = (rest - axis->digit[d][at]) >> 8;
            }
            if (rest) axis->digits_fit = 0;
        }
    }
    free(weights);
    return DONE;
}

static uint8_t rounded(uint32_t sum) {
    const int32_t value = (int32_t)sum >> BITS;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* `step` bytes a pixel, of which each is a channel. */
static void across(const Axis *axis, const uint8_t *in, int source, uint8_t *out, int target, int step) {
    const int taps = axis->taps < source ? axis->taps : source;
    for (int x = 0; x < target; x++) {
        const int32_t *k = axis->whole + (size_t)x * axis->taps;
        const uint8_t *pixels = in + (size_t)axis->first[x] * step;
        for (int c = 0; c < step; c++) {
            uint32_t sum = 1u << (BITS - 1);
            for (int j = 0; j < taps; j++) sum += (uint32_t)k[j] * pixels[(size_t)j * step + c];
            out[(size_t)x * step + c] = rounded(sum);
        }
    }
}

/* `bytes` of a row are made, from the one at `from` on. */
static void down(const Axis *axis, const uint8_t *in, size_t in_row, int source, size_t bytes, uint8_t *out, int y,
                 size_t from) {
    const int taps = axis->taps < source ? axis->taps : source;
    const int32_t *k = axis->whole + (size_t)y * axis->taps;
    const uint8_t *pixels = in + (size_t)axis->first[y] * in_row;
    for (size_t x = from; x < bytes; x++) {
        uint32_t sum = 1u << (BITS - 1);
        for (int j = 0; j < taps; j++) sum += (uint32_t)k[j] * pixels[(size_t)j * in_row + x];
        out[x] = rounded(sum);
    }
}

#if defined(__x86_64__)
#define WITH_AVX2 __attribute__((target("avx2")))

WITH_AVX2 static __m256i joined(__m256i high, __m256i low) {
    const __m256i half = _mm256_set1_epi32(1 << (BITS - 1));
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, LOW_BITS), low), half), BITS);
}

/* `ROWS` rows at once: the coefficients, the same for every row, are loaded and spread once for all of them. */
enum { ROWS = 4 };

WITH_AVX2 static inline __attribute__((always_inline)) void
across_rows_avx2(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, int target, int rows) {
    const __m256i pairs = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, /* two pixels */
                                           8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /* two coefficients */
                                            4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m128i half = _mm_set1_epi32(1 << (BITS - 1));
    for (int x = 0; x < target; x++) {
        const int16_t *high = axis->high + (size_t)x * axis->taps, *low = axis->low + (size_t)x * axis->taps;
        const uint8_t *pixels = in + (size_t)axis->first[x] * 4;
        __m256i h[ROWS], l[ROWS];
        for (int r = 0; r < rows; r++) h[r] = l[r] = _mm256_setzero_si256();
        for (int j = 0; j < axis->taps; j += 4) {
            int64_t four_high, four_low;
            memcpy(&four_high, high + j, 8);
            memcpy(&four_low, low + j, 8);
            const __m256i kh = _mm256_shuffle_epi8(_mm256_set1_epi64x(four_high), spread);
            const __m256i kl = _mm256_shuffle_epi8(_mm256_set1_epi64x(four_low), spread);
            for (int r = 0; r < rows; r++) {
                const __m128i four = _mm_loadu_si128((const __m128i *)(pixels + (size_t)r * in_row + 4 * (size_t)j));
                const __m256i p = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), pairs);
                h[r] = _mm256_add_epi32(h[r], _mm256_madd_epi16(p, kh));
                l[r] = _mm256_add_epi32(l[r], _mm256_madd_epi16(p, kl));
            }
        }
        for (int r = 0; r < rows; r++) {
            const __m256i both = _mm256_add_epi32(_mm256_slli_epi32(h[r], LOW_BITS), l[r]);
            __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
            sum = _mm_srai_epi32(_mm_add_epi32(sum, half), BITS);
            sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
            const int32_t pixel = _mm_cvtsi128_si32(sum);
            memcpy(out + (size_t)r * out_row + 4 * (size_t)x, &pixel, 4);
        }
    }
}

WITH_AVX2 static void across_avx2(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row,
                                  int target, int rows) {
    int y = 0;
    for (; y + ROWS <= rows; y += ROWS)
        across_rows_avx2(axis, in + y * in_row, in_row, out + y * out_row, out_row, target, ROWS);
    for (; y < rows; y++) across_rows_avx2(axis, in + y * in_row, in_row, out + y * out_row, out_row, target, 1);
}

WITH_AVX2 static size_t down_avx2(const Axis *axis, const uint8_t *in, size_t in_row, size_t bytes, uint8_t *out,
                                  int y) {
    const int16_t *high = axis->high + (size_t)y * axis->taps, *low = axis->low + (size_t)y * axis->taps;
    const uint8_t *pixels = in + (size_t)axis->first[y] * in_row;
    size_t x = 0;
    for (; x + 16 <= bytes; x += 16) {
        __m256i h0 = _mm256_setzero_si256(), h1 = h0, l0 = h0, l1 = h0;
        for (int j = 0; j < axis->taps; j += 2) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(pixels + (size_t)j * in_row + x));
            const __m128i b = _mm_loadu_si128((const __m128i *)(pixels + (size_t)(j + 1) * in_row + x));
            const __m256i p0 = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
            const __m256i p1 = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
            int32_t two;
            memcpy(&two, high + j, 4);
            const __m256i kh = _mm256_set1_epi32(two);
            memcpy(&two, low + j, 4);
            const __m256i kl = _mm256_set1_epi32(two);
            h0 = _mm256_add_epi32(h0, _mm256_madd_epi16(p0, kh));
            h1 = _mm256_add_epi32(h1, _mm256_madd_epi16(p1, kh));
            l0 = _mm256_add_epi32(l0, _mm256_madd_epi16(p0, kl));
            l1 = _mm256_add_epi32(l1, _mm256_madd_epi16(p1, kl));
        }
        __m256i words = _mm256_packs_epi32(joined(h0, l0), joined(h1, l1));
        words = _mm256_permute4x64_epi64(words, 0xD8);
        const __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(out + x), bytes);
    }
    return x;
}

/* One byte a pixel: its taps lie beside one another. */
WITH_AVX2 static void across_grey_avx2(const Axis *axis, const uint8_t *in, uint8_t *out, int target) {
    for (int x = 0; x < target; x++) {
        const int16_t *high = axis->high + (size_t)x * axis->taps, *low = axis->low + (size_t)x * axis->taps;
        const uint8_t *pixels = in + axis->first[x];
        __m128i h = _mm_setzero_si128(), l = h;
        for (int j = 0; j < axis->taps; j += 8) {
            const __m128i p = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(pixels + j)));
            h = _mm_add_epi32(h, _mm_madd_epi16(p, _mm_loadu_si128((const __m128i *)(high + j))));
            l = _mm_add_epi32(l, _mm_madd_epi16(p, _mm_loadu_si128((const __m128i *)(low + j))));
        }
        __m128i sum = _mm_add_epi32(_mm_slli_epi32(h, LOW_BITS), l);
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
        out[x] = rounded((uint32_t)_mm_cvtsi128_si32(sum) + (1u << (BITS - 1)));
    }
}

/* One instruction multiplies four bytes of pixels by four digits each and adds the products up: a pixel need not become
 * 16 bits wide first. Sums wrap around as the whole ones do, so that their 32 bits are the same. */
#define WITH_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))

WITH_VNNI static inline __attribute__((always_inline)) __m256i whole_of(const __m256i sums[3]) {
    return _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(sums[2], 16), _mm256_slli_epi32(sums[1], 8)), sums[0]);
}

WITH_VNNI static inline __attribute__((always_inline)) void
across_rows_vnni(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, int target, int rows) {
    const __m256i by_channel = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, /* four pixels */
                                                0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /* four coefficients */
                                            4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m128i half = _mm_set1_epi32(1 << (BITS - 1));
    for (int x = 0; x < target; x++) {
        const uint8_t *pixels = in + (size_t)axis->first[x] * 4;
        __m256i sums[ROWS][3];
        for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = sums[r][2] = _mm256_setzero_si256();
        for (int j = 0; j < axis->taps; j += 8) {
            __m256i k[3];
            for (int d = 0; d < 3; d++) {
                int64_t eight;
                memcpy(&eight, axis->digit[d] + (size_t)x * axis->taps + j, 8);
                k[d] = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), spread);
            }
            for (int r = 0; r < rows; r++) {
                const __m256i eight = _mm256_loadu_si256((const __m256i *)(pixels + (size_t)r * in_row + 4 * (size_t)j));
                const __m256i p = _mm256_shuffle_epi8(eight, by_channel);
                for (int d = 0; d < 3; d++) sums[r][d] = _mm256_dpbusd_epi32(sums[r][d], p, k[d]);
            }
        }
        for (int r = 0; r < rows; r++) {
            const __m256i both = whole_of(sums[r]);
            __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
            sum = _mm_srai_epi32(_mm_add_epi32(sum, half), BITS);
            sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
            const int32_t pixel = _mm_cvtsi128_si32(sum);
            memcpy(out + (size_t)r * out_row + 4 * (size_t)x, &pixel, 4);
        }
    }
}

WITH_VNNI static void across_vnni(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row,
                                  int target, int rows) {
    int y = 0;
    for (; y + ROWS <= rows; y += ROWS)
        across_rows_vnni(axis, in + y * in_row, in_row, out + y * out_row, out_row, target, ROWS);
    for (; y < rows; y++) across_rows_vnni(axis, in + y * in_row, in_row, out + y * out_row, out_row, target, 1);
}

WITH_VNNI static size_t down_vnni(const Axis *axis, const uint8_t *in, size_t in_row, size_t bytes, uint8_t *out,
                                  int y) {
    const __m256i half = _mm256_set1_epi32(1 << (BITS - 1));
    const uint8_t *pixels = in + (size_t)axis->first[y] * in_row;
    size_t x = 0;
    for (; x + 32 <= bytes; x += 32) {
        __m256i sums[4][3];
        for (int i = 0; i < 4; i++) sums[i][0] = sums[i][1] = sums[i][2] = _mm256_setzero_si256();
        for (int j = 0; j < axis->taps; j += 4) {
            __m256i rows[4], p[4];
            for (int r = 0; r < 4; r++) rows[r] = _mm256_loadu_si256((const __m256i *)(pixels + (size_t)(j + r) * in_row + x));
            const __m256i low01 = _mm256_unpacklo_epi8(rows[0], rows[1]), low23 = _mm256_unpacklo_epi8(rows[2], rows[3]);
            const __m256i high01 = _mm256_unpackhi_epi8(rows[0], rows[1]), high23 = _mm256_unpackhi_epi8(rows[2], rows[3]);
            p[0] = _mm256_unpacklo_epi16(low01, low23);
            p[1] = _mm256_unpackhi_epi16(low01, low23);
            p[2] = _mm256_unpacklo_epi16(high01, high23);
            p[3] = _mm256_unpackhi_epi16(high01, high23);
            for (int d = 0; d < 3; d++) {
                int32_t four;
                memcpy(&four, axis->digit[d] + (size_t)y * axis->taps + j, 4);
                const __m256i k = _mm256_set1_epi32(four);
                for (int i = 0; i < 4; i++) sums[i][d] = _mm256_dpbusd_epi32(sums[i][d], p[i], k);
            }
        }
        __m256i words[4];
        for (int i = 0; i < 4; i++) words[i] = _mm256_srai_epi32(_mm256_add_epi32(whole_of(sums[i]), half), BITS);
        /* Packing undoes in each half what unpacking did. */
        const __m256i bytes =
            _mm256_packus_epi16(_mm256_packs_epi32(words[0], words[1]), _mm256_packs_epi32(words[2], words[3]));
        _mm256_storeu_si256((__m256i *)(out + x), bytes);
    }
    return x;
}

static void across_vectors(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, int target,
                           int rows, int step, int vectors) {
    if (step == 4 && vectors == VNNI && axis->digits_fit) across_vnni(axis, in, in_row, out, out_row, target, rows);
    else if (step == 4) across_avx2(axis, in, in_row, out, out_row, target, rows);
    else
        for (int y = 0; y < rows; y++) across_grey_avx2(axis, in + y * in_row, out + y * out_row, target);
}

static size_t down_vectors(const Axis *axis, const uint8_t *in, size_t in_row, size_t bytes, uint8_t *out, int y,
                           int vectors) {
    if (vectors == VNNI && axis->digits_fit) return down_vnni(axis, in, in_row, bytes, out, y);
    return down_avx2(axis, in, in_row, bytes, out, y);
}
#elif defined(__aarch64__)
static uint16x4_t rounded_neon(uint32x4_t sum) {
    return vqmovun_s32(vshrq_n_s32(vreinterpretq_s32_u32(sum), BITS));
}

static void across_neon(const Axis *axis, const uint8_t *in, uint8_t *out, int target, int step) {
    for (int x = 0; x < target; x++) {
        const uint32_t *k = (const uint32_t *)axis->whole + (size_t)x * axis->taps;
        const uint8_t *pixels = in + (size_t)axis->first[x] * step;
        uint32x4_t one = vdupq_n_u32(0), two = one;
        if (step == 1) {
            for (int j = 0; j < axis->taps; j += 8) {
                const uint16x8_t p = vmovl_u8(vld1_u8(pixels + j));
                one = vmlaq_u32(one, vmovl_u16(vget_low_u16(p)), vld1q_u32(k + j));
                two = vmlaq_u32(two, vmovl_u16(vget_high_u16(p)), vld1q_u32(k + j + 4));
            }
            out[x] = rounded(vaddvq_u32(vaddq_u32(one, two)) + (1u << (BITS - 1)));
            continue;
        }
        for (int j = 0; j < axis->taps; j += 4) {
            const uint8x16_t four = vld1q_u8(pixels + 4 * (size_t)j);
            const uint16x8_t low = vmovl_u8(vget_low_u8(four)), high = vmovl_u8(vget_high_u8(four));
            one = vmlaq_n_u32(one, vmovl_u16(vget_low_u16(low)), k[j]);
            two = vmlaq_n_u32(two, vmovl_u16(vget_high_u16(low)), k[j + 1]);
            one = vmlaq_n_u32(one, vmovl_u16(vget_low_u16(high)), k[j + 2]);
            two = vmlaq_n_u32(two, vmovl_u16(vget_high_u16(high)), k[j + 3]);
        }
        const uint16x4_t sum = rounded_neon(vaddq_u32(vaddq_u32(one, two), vdupq_n_u32(1u << (BITS - 1))));
        const uint32_t pixel = vget_lane_u32(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(sum, sum))), 0);
        memcpy(out + 4 * (size_t)x, &pixel, 4);
    }
}

static void across_vectors(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, int target,
                           int rows, int step, int vectors) {
    (void)vectors;
    for (int y = 0; y < rows; y++) across_neon(axis, in + y * in_row, out + y * out_row, target, step);
}

static size_t down_vectors(const Axis *axis, const uint8_t *in, size_t in_row, size_t bytes, uint8_t *out, int y,
                           int vectors) {
    (void)vectors;
    const uint32_t *k = (const uint32_t *)axis->whole + (size_t)y * axis->taps;
    const uint8_t *pixels = in + (size_t)axis->first[y] * in_row;
    size_t x = 0;
    for (; x + 16 <= bytes; x += 16) {
        uint32x4_t sums[4];
        for (int i = 0; i < 4; i++) sums[i] = vdupq_n_u32(1u << (BITS - 1));
        for (int j = 0; j < axis->taps; j++) {
            const uint8x16_t p = vld1q_u8(pixels + (size_t)j * in_row + x);
            const uint16x8_t low = vmovl_u8(vget_low_u8(p)), high = vmovl_u8(vget_high_u8(p));
            sums[0] = vmlaq_n_u32(sums[0], vmovl_u16(vget_low_u16(low)), k[j]);
            sums[1] = vmlaq_n_u32(sums[1], vmovl_u16(vget_high_u16(low)), k[j]);
            sums[2] = vmlaq_n_u32(sums[2], vmovl_u16(vget_low_u16(high)), k[j]);
            sums[3] = vmlaq_n_u32(sums[3], vmovl_u16(vget_high_u16(high)), k[j]);
        }
        const uint16x8_t low = vcombine_u16(rounded_neon(sums[0]), rounded_neon(sums[1]));
        const uint16x8_t high = vcombine_u16(rounded_neon(sums[2]), rounded_neon(sums[3]));
        vst1q_u8(out + x, vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)));
    }
    return x;
}
#else
static void across_vectors(const Axis *axis, const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, int target,
                           int rows, int step, int vectors) {
    (void)axis, (void)in, (void)in_row, (void)out, (void)out_row, (void)target, (void)rows, (void)step, (void)vectors;
}

static size_t down_vectors(const Axis *axis, const uint8_t *in, size_t in_row, size_t bytes, uint8_t *out, int y,
                           int vectors) {
    (void)axis, (void)in, (void)in_row, (void)bytes, (void)out, (void)y, (void)vectors;
    return 0;
}
#endif

/* The CPU's instructions: 0 none used, 1 AVX2, 2 NEON, 3 AVX2 and AVX-512 VNNI. */
int lightbox_instructions(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return PLAIN;
    const int has_vnni = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
    return has_vnni && __builtin_cpu_supports("avx512bw") ? VNNI : AVX2;
#elif defined(__aarch64__)
    return NEON; /* every 64-bit ARM has it */
#else
    return PLAIN;
#endif
}

typedef struct {
    int first, count;
} Span;

/* Return which of `source` positions the axis reads, and count its first ones from there. */
static Span needed(Axis *axis, int source, int target) {
    if (!axis->inside) return (Span){0, source};
    const int first = axis->first[0], last = axis->first[target - 1] + axis->taps;
    for (int i = 0; i < target; i++) axis->first[i] -= first;
    return (Span){first, last - first};
}

static void all_across(const Axis *axis, const uint8_t *in, size_t in_row, int source, int rows, uint8_t *out,
                       int target, int step, int vectors) {
    const size_t out_row = (size_t)target * step;
    if (vectors && axis->inside) across_vectors(axis, in, in_row, out, out_row, target, rows, step, vectors);
    else
        for (int y = 0; y < rows; y++) across(axis, in + y * in_row, source, out + y * out_row, target, step);
}

static void all_down(const Axis *axis, const uint8_t *in, size_t in_row, int source, size_t bytes, uint8_t *out,
                     int target, int vectors) {
    for (int y = 0; y < target; y++) {
        uint8_t *to = out + (size_t)y * bytes;
        const size_t made = vectors && axis->inside ? down_vectors(axis, in, in_row, bytes, to, y, vectors) : 0;
        down(axis, in, in_row, source, bytes, to, y, made);
    }
}

/* Where a resized picture goes: the memory of a tensor, and how many bytes its rows, pixels and channels are apart. */
typedef struct {
    uint8_t *memory;
    ptrdiff_t row, pixel, channel;
    int width, height;
} Target;

static void deliver(const uint8_t *in, size_t in_row, int step, const float *table, const Target *out) {
    const int channels = step == 4 ? 3 : 1;
    for (int y = 0; y < out->height; y++) {
        const uint8_t *from = in + y * in_row;
        uint8_t *to = out->memory + y * out->row;
        if (table && step == 4) /* by far the most frequent case */
            for (int x = 0; x < out->width; x++, from += 4, to += out->pixel) {
                *(float *)(void *)to = table[from[0]];
                *(float *)(void *)(to + out->channel) = table[256 + from[1]];
                *(float *)(void *)(to + 2 * out->channel) = table[512 + from[2]];
            }
        else
            for (int x = 0; x < out->width; x++, from += step, to += out->pixel)
                for (int c = 0; c < channels; c++) {
                    if (table) *(float *)(void *)(to + c * out->channel) = table[c * 256 + from[c]];
                    else to[c * out->channel] = from[c];
                }
    }
}

static int part_fits(int start, int count, int whole) { return start >= 0 && count > 0 && start <= whole - count; }

static int fits(const uint8_t *in, size_t in_bytes, int width, int height, int step, int whole_width, int whole_height,
                int left, int top, const Target *out) {
    if (!in || !out || !out->memory || (step != 1 && step != 4)) return 0;
    if (width < 1 || height < 1 || width > MOST || height > MOST || out->width > MOST || out->height > MOST) return 0;
    if (in_bytes < (size_t)width * height * step) return 0;
    return part_fits(left, out->width, whole_width) && part_fits(top, out->height, whole_height);
}

/* Resize an image, 4 bytes a pixel (RGB and one unused) or 1, to `whole_width` x `whole_height`, and write the part of
 * it that begins at `left`, `top` to `out`, which has as many rows and columns as are made, and 3 channels or 1: uint8,
 * or with a `table` [channels, 256] the float32 that it has for each value. Only what the part needs is computed; its
 * pixels are those of the whole. `filter`: 0 box, 1 bilinear, 2 bicubic, 3 lanczos. `vectors`: the instructions that
 * are used, as lightbox_instructions numbers them. Returns 0, 1 without memory, 2 for arguments that do not fit one
 * another. The caller is responsible for the memory of `out`. */
int lightbox_resize(const uint8_t *in, size_t in_bytes, int width, int height, int step, int whole_width,
                    int whole_height, int left, int top, const Target *out, int filter, const float *table,
                    int vectors) {
    if (!fits(in, in_bytes, width, height, step, whole_width, whole_height, left, top, out)) return REFUSED;
    if (filter < 0 || filter > 3) return REFUSED;

    const int need_x = whole_width != width, need_y = whole_height != height;
    const int rows_first = height > whole_height && height - whole_height > 2LL * (width - whole_width);
    const int best = lightbox_instructions();
    if (vectors < PLAIN || vectors > best) vectors = best;
    Axis x = {0}, y = {0};
    Span columns = {left, out->width}, rows = {top, out->height};
    uint8_t *between = NULL, *result = NULL;
    int code = DONE;
    if (need_x) {
        const int together = step == 1 || vectors == VNNI ? 8 : 4;
        code = make_axis(&x, width, whole_width, left, out->width, filter, together);
        if (!code) columns = needed(&x, width, out->width);
    }
    if (!code && need_y) {
        code = make_axis(&y, height, whole_height, top, out->height, filter, 4);
        if (!code) rows = needed(&y, height, out->height);
    }
    const size_t in_row = (size_t)width * step, wide = (size_t)columns.count * step, row = (size_t)out->width * step;
    const uint8_t *now = in + rows.first * in_row + (size_t)columns.first * step;
    if (!code && need_x && need_y && !(between = malloc(rows_first ? wide * out->height : row * rows.count)))
        code = NO_MEMORY;
    if (!code && (need_x || need_y) && !(result = malloc(row * out->height))) code = NO_MEMORY;
    if (!code) {
        if (need_x && need_y && rows_first) {
            all_down(&y, now, in_row, rows.count, wide, between, out->height, vectors);
            all_across(&x, between, wide, columns.count, out->height, result, out->width, step, vectors);
        } else if (need_x && need_y) {
            all_across(&x, now, in_row, columns.count, rows.count, between, out->width, step, vectors);
            all_down(&y, between, row, rows.count, row, result, out->height, vectors);
        } else if (need_x) all_across(&x, now, in_row, columns.count, out->height, result, out->width, step, vectors);
        else if (need_y) all_down(&y, now, in_row, rows.count, row, result, out->height, vectors);
        if (result) deliver(result, row, step, table, out);
        else deliver(now, in_row, step, table, out);
    }
    free(between);
    free(result);
    free_axis(&x);
    free_axis(&y);
    return code;
}

/* The two `source` positions around each target, and its weight of the second: 0..1 as in TensorFlow, or a whole part
 * of ONE as in OpenCV. */
typedef struct {
    int *first, *second, *part;
    float *near;
} Between;

enum { ONE = 2048 };

static int make_between(Between *between, int source, int whole, int start, int target, int as_opencv) {
    const float scale = (float)source / (float)whole;
    const double step = 1.0 / ((double)whole / source);
    between->first = malloc((size_t)target * sizeof *between->first);
    between->second = malloc((size_t)target * sizeof *between->second);
    between->part = malloc((size_t)target * sizeof *between->part);
    between->near = malloc((size_t)target * sizeof *between->near);
    if (!between->first || !between->second || !between->part || !between->near) return NO_MEMORY;
    for (int i = 0; i < target; i++) {
        const float place = as_opencv ? (float)((start + i + 0.5) * step - 0.5)
                                      : ((float)(start + i) + 0.5f) * scale - 0.5f;
        const float lower = floorf(place), upper = ceilf(place);
        between->first[i] = lower < 0 ? 0 : (int)lower;
        between->second[i] = upper > (float)(source - 1) ? source - 1 : (int)upper;
        between->near[i] = place - lower;
        between->part[i] = (int)rintf(between->near[i] * ONE);
    }
    return DONE;
}

static void free_between(Between *between) {
    free(between->first);
    free(between->second);
    free(between->part);
    free(between->near);
}

/* A row of either kind, in four bytes for each value. */
typedef union {
    float *exact;
    int32_t *parts;
} Row;

static void interpolate_row(const Between *x, const uint8_t *in, int step, Row out, int target, int as_opencv) {
    const int channels = step == 4 ? 3 : 1;
    size_t o = 0;
    for (int i = 0; i < target; i++) {
        const uint8_t *first = in + (size_t)x->first[i] * step, *second = in + (size_t)x->second[i] * step;
        const float near = x->near[i];
        const int part = x->part[i];
        if (as_opencv)
            for (int c = 0; c < channels; c++) out.parts[o++] = (first[c] * (ONE - part) + second[c] * part) >> 4;
        else
            for (int c = 0; c < channels; c++) out.exact[o++] = first[c] + ((float)second[c] - first[c]) * near;
    }
}

/* As lightbox_resize, but with the bilinear interpolation of tf.image.resize or cv2.resize, which does not average:
 * `out` gets float32 of 0..255. */
int lightbox_interpolate(const uint8_t *in, size_t in_bytes, int width, int height, int step, int whole_width,
                         int whole_height, int left, int top, const Target *out, int as_opencv) {
    if (!fits(in, in_bytes, width, height, step, whole_width, whole_height, left, top, out)) return REFUSED;
    const int channels = step == 4 ? 3 : 1;
    const size_t in_row = (size_t)width * step, row = (size_t)out->width * channels;
    Between x = {0}, y = {0};
    Row rows[2] = {{malloc(row * sizeof(float))}, {malloc(row * sizeof(float))}};
    int made[2] = {-1, -1};
    int code = rows[0].exact && rows[1].exact ? DONE : NO_MEMORY;
    if (!code) code = make_between(&x, width, whole_width, left, out->width, as_opencv);
    if (!code) code = make_between(&y, height, whole_height, top, out->height, as_opencv);
    for (int i = 0; !code && i < out->height; i++) {
        const int wanted[2] = {y.first[i], y.second[i]};
        if (made[1] == wanted[0]) { /* the lower row of the one before */
            const Row upper = rows[1];
            rows[1] = rows[0], rows[0] = upper;
            made[1] = made[0], made[0] = wanted[0];
        }
        for (int r = 0; r < 2; r++)
            if (made[r] != wanted[r]) {
                interpolate_row(&x, in + wanted[r] * in_row, step, rows[r], out->width, as_opencv);
                made[r] = wanted[r];
            }
        const float near = y.near[i];
        const int part = y.part[i];
        for (int c = 0; c < channels; c++) {
            uint8_t *to = out->memory + i * out->row + c * out->channel;
            if (as_opencv)
                for (size_t j = c; j < row; j += channels, to += out->pixel) {
                    const int above = rows[0].parts[j] * (ONE - part), below = rows[1].parts[j] * part;
                    *(float *)(void *)to = (float)(((above >> 16) + (below >> 16) + 2) >> 2);
                }
            else
                for (size_t j = c; j < row; j += channels, to += out->pixel) {
                    const float above = rows[0].exact[j], below = rows[1].exact[j];
                    *(float *)(void *)to = above + (below - above) * near;
                }
        }
    }
    free(rows[0].exact);
    free(rows[1].exact);
    free_between(&x);
    free_between(&y);
    return code;
}
