/* Evaluation of expression bytecode, and control flow between operations.
 *
 * A parameter may be undecided: known only to be at least its level. Evaluation that depends on
 * more answers NEED and leaves in `need_*` which parameter and up to which level the search has to
 * split cases. */

static word floor_div(word a, word b)
{
    word quotient = a / b;
    return (a % b != 0 && ((a < 0) != (b < 0))) ? quotient - 1 : quotient;
}

static int broken(search_t *s, int error)
{
    s->error = error;
    return BROKEN;
}

/* The words [level, decided] of a parameter for the agent with these variables, or NULL. */
static const word *size_of(search_t *s, const word *fixed, const word *variables, word number,
                           word outer)
{
    const parameter_t *p = (const parameter_t *)s->program->parameter + number;
    if (!p->per)
        return fixed + p->base;
    word instance = outer < 0 ? 0 : variables[outer];
    if (instance < 0)
        instance = 0;
    if (p->length) {
        word index = instance < p->length ? instance : p->length - 1;
        s->scratch_size[0] = s->program->per_sizes[p->table + index];
        s->scratch_size[1] = 1;
        return s->scratch_size;
    }
    word index = instance - fixed[p->base];
    if (index < 0 || index >= s->program->window) {
        s->error = ERROR_WINDOW;
        return NULL;
    }
    s->need_record = index;
    return fixed + p->base + 1 + 2 * index;
}

static int need(search_t *s, word parameter, word level)
{
    const parameter_t *p = (const parameter_t *)s->program->parameter + parameter;
    if (level > p->limit)
        return broken(s, ERROR_LEVEL);
    s->need_parameter = parameter;
    s->need_level = level;
    return NEED;
}

/* Truth of rest + factor * N < 0 (or == 0): known for every N >= level, or NEED. */
static int test_size(search_t *s, word parameter, const word *size, int equal, word rest,
                     word factor, word *truth)
{
    word value = rest + factor * size[0];
    if (size[1]) {
        *truth = equal ? value == 0 : value < 0;
        return DONE;
    }
    word root = floor_div(-rest, factor); /* rest + factor * root is 0 or just before it */
    if (equal) {
        if (size[0] > root || root * factor != -rest) {
            *truth = 0;
            return DONE;
        }
        return need(s, parameter, root + 1);
    }
    /* Growing N makes it true for a negative factor and false for a positive one. */
    word last = factor < 0 ? floor_div(rest, -factor) : -floor_div(rest, factor) - 1;
    if (size[0] > last) {
        *truth = factor < 0;
        return DONE;
    }
    return need(s, parameter, last + 1);
}

static int compare_parameter(search_t *s, const word *fixed, const word *variables, const word *c,
                             word rest, word *out)
{
    word operator = c[1], parameter = c[2], factor = c[3], truth = 0;
    const word *size = size_of(s, fixed, variables, parameter, c[4]);
    if (!size)
        return BROKEN;
    int equal = operator == OP_EQ || operator == OP_NE;
    if (operator == OP_LE)
        rest -= 1;
    if (operator == OP_GT)
        rest -= 1; /* e > 0 is not (e < 1), that is not (e - 1 < 0) */
    int result = test_size(s, parameter, size, equal, rest, factor, &truth);
    if (operator == OP_NE || operator == OP_GE || operator == OP_GT)
        truth = !truth;
    *out = truth;
    return result;
}

static int arithmetic(search_t *s, word operator, word left, word right, word *out)
{
    switch (operator) {
    case OP_ADD: return __builtin_add_overflow(left, right, out) ? broken(s, ERROR_NUMBER) : DONE;
    case OP_SUB: return __builtin_sub_overflow(left, right, out) ? broken(s, ERROR_NUMBER) : DONE;
    case OP_MUL: return __builtin_mul_overflow(left, right, out) ? broken(s, ERROR_NUMBER) : DONE;
    case OP_DIV:
    case OP_MOD:
        if (right == 0)
            return broken(s, ERROR_DIVISION);
        *out = floor_div(left, right);
        if (operator == OP_MOD)
            *out = left - right * *out;
        return DONE;
    case OP_MIN: *out = left < right ? left : right; return DONE;
    case OP_MAX: *out = left > right ? left : right; return DONE;
    case OP_LT: *out = left < right; return DONE;
    case OP_LE: *out = left <= right; return DONE;
    case OP_EQ: *out = left == right; return DONE;
    case OP_NE: *out = left != right; return DONE;
    case OP_GE: *out = left >= right; return DONE;
    default: *out = left > right; return DONE;
    }
}

/* The value of the expression at `start` for one agent. */
static int evaluate(search_t *s, const word *fixed, const word *variables, word member, word start,
                    word *out)
{
    word stack[STACK_MAX];
    int top = -1;
    for (const word *c = s->program->code + start;;) {
        const word *size;
        int result;
        switch (*c) {
        case OP_END: *out = stack[top]; return DONE;
        case OP_CONSTANT: stack[++top] = c[1]; c += 2; break;
        case OP_VARIABLE: stack[++top] = variables[c[1]]; c += 2; break;
        case OP_SELF: stack[++top] = member; c += 1; break;
        case OP_PARAMETER:
            size = size_of(s, fixed, variables, c[1], c[2]);
            if (!size)
                return BROKEN;
            if (!size[1])
                return need(s, c[1], size[0] + 1);
            stack[++top] = size[0];
            c += 3;
            break;
        case OP_TEST_PARAMETER:
            result = compare_parameter(s, fixed, variables, c, stack[top], &stack[top]);
            if (result != DONE)
                return result;
            c += 5;
            break;
        case OP_NOT: stack[top] = !stack[top]; c += 1; break;
        case OP_BOOL: stack[top] = stack[top] != 0; c += 1; break;
        case OP_AND:
        case OP_OR: /* short circuit: the left operand alone decides */
            if ((stack[top] != 0) == (*c == OP_OR)) {
                stack[top] = *c == OP_OR;
                c += c[1];
            } else {
                top -= 1;
                c += 2;
            }
            break;
        default:
            top -= 1;
            result = arithmetic(s, *c, stack[top], stack[top + 1], &stack[top]);
            if (result != DONE)
                return result;
            c += 1;
        }
    }
}

/* Follow tests and assignments from `*position` to the next operation or the end. */
static int settle(search_t *s, const word *fixed, word *variables, word member, word *position)
{
    const node_t *nodes = (const node_t *)s->program->nodes;
    for (int count = 0; count < LOCAL_STEPS_MAX; count++) {
        const node_t *node = nodes + *position;
        word value;
        int result;
        if (node->kind > N_TEST || node->kind == N_END)
            return DONE;
        result = evaluate(s, fixed, variables, member, node->a, &value);
        if (result != DONE)
            return result;
        if (node->kind == N_ASSIGN) {
            variables[node->x] = value;
            *position = node->next;
        } else {
            *position = value ? node->next : node->alt;
        }
    }
    return broken(s, ERROR_LOCAL_LOOP);
}
