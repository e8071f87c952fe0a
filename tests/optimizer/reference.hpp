// The update rules in double precision, as their papers have them, on a flat buffer.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "optimizer/muon.hpp"
#include "optimizer/optimizer.hpp"

namespace mylos::test {

using Values = std::vector<double>;

// One Newton-Schulz orthogonalisation of a dense row-major matrix.
inline Values orthogonalized(Values x, std::int64_t rows, std::int64_t columns, std::int64_t iterations) {
  if (rows > columns) {
    Values t(x.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) t[std::size_t(j * rows + i)] = x[std::size_t(i * columns + j)];
    t = orthogonalized(t, columns, rows, iterations);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) x[std::size_t(i * columns + j)] = t[std::size_t(j * rows + i)];
    return x;
  }
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::sqrt(squares) + 1e-7;
  // c [rows, n] = a [rows, rows] · b [rows, n]
  const auto product = [&](const Values& a, const Values& b, std::int64_t n) {
    Values c(std::size_t(rows * n), 0.0);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t k = 0; k < rows; ++k)
        for (std::int64_t j = 0; j < n; ++j)
          c[std::size_t(i * n + j)] += a[std::size_t(i * rows + k)] * b[std::size_t(k * n + j)];
    return c;
  };
  for (std::int64_t step = 0; step < iterations; ++step) {
    Values gram(std::size_t(rows * rows), 0.0);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t k = 0; k < columns; ++k)
          gram[std::size_t(i * rows + j)] += x[std::size_t(i * columns + k)] * x[std::size_t(j * columns + k)];
    Values polynomial = product(gram, gram, rows);
    for (std::size_t i = 0; i < gram.size(); ++i) polynomial[i] = -4.7750 * gram[i] + 2.0315 * polynomial[i];
    const Values moved = product(polynomial, x, columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + moved[i];
  }
  return x;
}

struct Reference {
  optimizer::OptimizerConfig c;  // resolved
  optimizer::Parameters parameters;
  Values p, first, second, z, x;  // p: what gradients are taken at; first: moment1 or momentum
  double squared_rates = 0;

  Reference(const optimizer::OptimizerConfig& config, const optimizer::Parameters& all, const Values& start)
      : c(optimizer::resolve(config)),
        parameters(all),
        p(start),
        first(start.size()),
        second(start.size()),
        z(start),
        x(start) {}

  // Returns the norm of g.
  double update(std::int64_t step, double lr, const Values& g) {
    double squares = 0;
    for (const double v : g) squares += v * v;
    const double norm = std::sqrt(squares), most = c.max_grad_norm;
    clip = most > 0 && norm + 1e-6 > most ? most / (norm + 1e-6) : 1.0;
    using optimizer::Rule;
    if (c.name == Rule::schedule_free) {
      gamma = lr * std::sqrt(1 - std::pow(c.beta2, double(step + 1)));
      squared_rates += gamma * gamma;
      average = gamma * gamma / squared_rates;
    }
    const auto total = std::int64_t(p.size());
    if (c.name == Rule::muon) {
      for (const optimizer::MatrixPart& m : parameters.matrices) muon(m, lr, g);
      for (std::int64_t i = 0; i < total; ++i)
        if (i < parameters.hidden.begin || i >= parameters.hidden.end) adamw(i, step, lr * c.muon_adamw, g);
      return norm;
    }
    for (std::int64_t i = 0; i < total; ++i) {
      if (c.name == Rule::adamw) adamw(i, step, lr, g);
      if (c.name == Rule::lion) lion(i, lr, g);
      if (c.name == Rule::sgd) sgd(i, lr, g);
      if (c.name == Rule::schedule_free) schedule_free(i, g);
    }
    return norm;
  }

 private:
  double clip = 1, gamma = 0, average = 0;

  double decay(std::int64_t i) const { return i < parameters.decay_end ? c.weight_decay : 0.0; }
  void adamw(std::int64_t at, std::int64_t step, double lr, const Values& all) {
    const auto i = std::size_t(at);
    const double g = all[i] * clip, c1 = 1 - std::pow(c.beta1, double(step + 1)),
                 c2 = 1 - std::pow(c.beta2, double(step + 1));
    first[i] = c.beta1 * first[i] + (1 - c.beta1) * g;
    second[i] = c.beta2 * second[i] + (1 - c.beta2) * g * g;
    p[i] -= lr * (first[i] / c1 / (std::sqrt(second[i] / c2) + c.eps) + decay(at) * p[i]);
  }
  void lion(std::int64_t at, double lr, const Values& all) {
    const auto i = std::size_t(at);
    const double g = all[i] * clip, u = c.beta1 * first[i] + (1 - c.beta1) * g;
    p[i] -= lr * (double(u > 0) - double(u < 0) + decay(at) * p[i]);
    first[i] = c.beta2 * first[i] + (1 - c.beta2) * g;
  }
  void sgd(std::int64_t at, double lr, const Values& all) {
    const auto i = std::size_t(at);
    const double g = all[i] * clip;
    first[i] = c.momentum * first[i] + g;
    p[i] -= lr * ((c.nesterov ? g + c.momentum * first[i] : first[i]) + decay(at) * p[i]);
  }
  // Algorithm 1 with x and z as they are.
  void schedule_free(std::int64_t at, const Values& all) {
    const auto i = std::size_t(at);
    const double g = all[i] * clip;
    second[i] = c.beta2 * second[i] + (1 - c.beta2) * g * g;
    z[i] -= gamma * (g / (std::sqrt(second[i]) + c.eps) + decay(at) * p[i]);
    x[i] = (1 - average) * x[i] + average * z[i];
    p[i] = (1 - c.beta1) * z[i] + c.beta1 * x[i];
  }
  void muon(const optimizer::MatrixPart& m, double lr, const Values& all) {
    Values u(std::size_t(m.rows * m.columns));
    for (std::size_t k = 0; k < u.size(); ++k) {
      const std::size_t i = std::size_t(m.offset) + k;
      const double g = all[i] * clip;
      first[i] = c.momentum * first[i] + g;
      u[k] = c.nesterov ? g + c.momentum * first[i] : first[i];
    }
    u = orthogonalized(u, m.rows, m.columns, c.muon_iterations);
    const double factor = optimizer::muon_factor(c.muon_scale, m.rows, m.columns);
    for (std::size_t k = 0; k < u.size(); ++k) {
      const std::size_t i = std::size_t(m.offset) + k;
      p[i] -= lr * (factor * u[k] + decay(std::int64_t(i)) * p[i]);
    }
  }
};

}  // namespace mylos::test
