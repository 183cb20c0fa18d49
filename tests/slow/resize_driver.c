/* Resizes what comes on stdin, case by case, and writes each result to stdout: the resize without Python around it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int lightbox_instructions(void);
int lightbox_resize(const uint8_t *in, size_t in_bytes, int width, int height, int step, float left, float top,
                    float right, float bottom, int filter, int reversed, const float *table, void *out,
                    size_t out_bytes, int out_width, int out_height, int vectors);

typedef struct {
    int32_t width, height, step, out_width, out_height, filter, reversed, has_table;
    float box[4];
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
        const size_t channels = c.step == 4 ? 3 : 1, bytes = (size_t)c.width * c.height * c.step;
        const size_t made = (size_t)c.out_width * c.out_height * channels * (c.has_table ? 4 : 1);
        uint8_t *in = filled(bytes);
        float *table = c.has_table ? filled(channels * 256 * sizeof *table) : NULL;
        void *out = malloc(made);
        if (!out) return 1;
        if (lightbox_resize(in, bytes, c.width, c.height, c.step, c.box[0], c.box[1], c.box[2], c.box[3], c.filter,
                            c.reversed, table, out, made, c.out_width, c.out_height, used))
            return 2;
        if (fwrite(out, 1, made, stdout) != made) return 3;
        free(in);
        free(table);
        free(out);
    }
    return 0;
}
