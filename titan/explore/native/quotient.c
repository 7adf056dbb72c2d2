/* Relative numbers: shift classes and windows of sizes (titan/explore/quotient.py has the argument). */

static void slide_windows(search_t *s, word *w, int logging)
{
    (void)s;
    (void)w;
    (void)logging;
}

static word shift_classes(search_t *s, word *w)
{
    (void)s;
    (void)w;
    return 0;
}
