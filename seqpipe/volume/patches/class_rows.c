// Counts the labels of each class in each row: counts[row * classes + class], for labels below `classes`.
#include <stdint.h>

#define COUNT(NAME, TYPE)                                                                                        \
    void seqpipe_##NAME(const void *labels, int64_t rows, int64_t columns, int64_t classes, int32_t *counts) {   \
        const TYPE *label = labels;                                                                              \
        for (int64_t row = 0; row < rows; row++, counts += classes)                                              \
            for (int64_t column = 0; column < columns; column++) counts[*label++]++;                             \
    }

COUNT(class_rows_1, uint8_t)
COUNT(class_rows_2, uint16_t)
