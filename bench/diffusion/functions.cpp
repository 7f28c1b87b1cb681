int gcd(int a, int b) {
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

long factorial(int n) {
    long product = 1;
    for (int i = 2; i <= n; ++i) product *= i;
    return product;
}

bool is_prime(unsigned n) {
    if (n < 2) return false;
    for (unsigned d = 2; d * d <= n; ++d) {
        if (n % d == 0) return false;
    }
    return true;
}

struct Point {
    double x, y;
    Point operator+(const Point &o) const { return {x + o.x, y + o.y}; }
};
double dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

template <class T>
const T *find(const T *first, const T *last, const T &value) {
    for (; first != last; ++first) {
        if (*first == value) return first;
    }
    return last;
}

unsigned count_bits(unsigned long word) {
    unsigned count = 0;
    while (word) {
        word &= word - 1;
        ++count;
    }
    return count;
}

void sort(int *values, int size) {
    for (int i = 1; i < size; ++i) {
        int value = values[i], j = i - 1;
        while (j >= 0 && values[j] > value) {
            values[j + 1] = values[j];
            --j;
        }
        values[j + 1] = value;
    }
}

enum class Color { red, green, blue };
const char *name(Color color) {
    switch (color) {
        case Color::red: return "red";
        case Color::green: return "green";
        default: return "blue";
    }
}
