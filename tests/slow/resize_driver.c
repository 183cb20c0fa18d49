/* Resizes what comes on stdin, case by case, and writes each result to stdout: the resize without Python around it. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    uint8_t *memory;
    ptrdiff_t row, pixel, channel;
    int width, height;
} Target;

int lightbox_instructions(void);
int lightbox_resize(const uint8_t *in, size_t in_bytes, int width, int height, int step, int whole_width,
                    int whole_height, int left, int top, const Target *out, int filter, const float *table,
                    int vectors);
int lightbox_interpolate(const uint8_t *in, size_t in_bytes, int width, int height, int step, int whole_width,
                         int whole_height, int left, int top, const Target *out, int as_opencv);

/* `filter` -1 interpolates as TensorFlow, -2 as OpenCV. */
typedef struct {
    int32_t width, height, step, whole_width, whole_height, left, top, out_width, out_height, filter, has_table;
} Case;

static void *filled(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory || fread(memory, 1, bytes, stdin) != bytes) exit(1);
    return memory;
}

int main(int argc, char **argv) {
    Case c;
    const int best = lightbox_instructions(), used = argc > 1 ? atoi(argv[1]) : best;
    fprintf(stderr, "instructions %d\n", used < best ? used : best);
    while (fread(&c, sizeof c, 1, stdin) == 1) {
        const ptrdiff_t channels = c.step == 4 ? 3 : 1, item = c.has_table || c.filter < 0 ? 4 : 1;
        const size_t bytes = (size_t)c.width * c.height * c.step;
        const size_t made = (size_t)c.out_width * c.out_height * channels * item;
        uint8_t *in = filled(bytes), *out = malloc(made);
        float *table = c.has_table ? filled(channels * 256 * sizeof *table) : NULL;
        const Target target = {out, c.out_width * channels * item, channels * item, item, c.out_width, c.out_height};
        const int code = c.filter < 0 ? lightbox_interpolate(in, bytes, c.width, c.height, c.step, c.whole_width,
                                                             c.whole_height, c.left, c.top, &target, c.filter == -2)
                                      : lightbox_resize(in, bytes, c.width, c.height, c.step, c.whole_width,
                                                        c.whole_height, c.left, c.top, &target, c.filter, table, used);
        if (code) return 2;
        if (fwrite(out, 1, made, stdout) != made) return 3;
        free(in);
        free(table);
        free(out);
    }
    return 0;
}
