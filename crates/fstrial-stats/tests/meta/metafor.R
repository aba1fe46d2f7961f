# Makes metafor.csv, the values that tests/meta.rs compares with: Debian's r-cran-metafor, `Rscript metafor.R > metafor.csv`.
# A line: name, count k, the k log-ratios, the k variances, the k values of a moderator, and what metafor finds.
suppressPackageStartupMessages(library(metafor))
options(digits = 15)
precise <- list(threshold = 1e-13, maxiter = 100000)

line <- function(name, y, v, x) {
  plain <- rma(y, v, method = "REML", test = "adhoc", control = precise)
  ahead <- predict(plain)
  moderated <- if (length(y) >= 4) rma(y, v, mods = ~x, method = "REML", test = "adhoc", control = precise)
  slope <- if (is.null(moderated)) rep(NA, 4)
           else c(moderated$b[2], moderated$ci.lb[2], moderated$ci.ub[2], moderated$tau2)
  left <- if (length(y) >= 4) leave1out(plain)$estimate[1] else NA
  found <- c(plain$tau2, plain$b, plain$se, plain$ci.lb, plain$ci.ub, ahead$pi.lb, ahead$pi.ub, plain$QE, plain$I2, slope, left)
  cat(paste(c(name, length(y), format(c(y, v, x), digits = 15, trim = TRUE),
              format(found, digits = 12, trim = TRUE, scientific = TRUE)), collapse = ","), "\n", sep = "")
}

cat("# name,k,y...,v...,x...,tau2,mean,se,ci.low,ci.high,pi.low,pi.high,Q,I2,slope,slope.low,slope.high,slope.tau2,without.first\n")
cat("# metafor", as.character(packageVersion("metafor")), "\n")

# The trials of a vaccine that every textbook has (Colditz and others 1994), by latitude.
bcg <- escalc(measure = "RR", ai = tpos, bi = tneg, ci = cpos, di = cneg, data = dat.bcg)
line("bcg", as.numeric(bcg$yi), as.numeric(bcg$vi), bcg$ablat)

set.seed(20261129)
hosts <- function(name, k, spread, errors) {
  v <- errors[1 + (seq_len(k) - 1) %% length(errors)]^2
  x <- round(runif(k, 1, 7), 2)
  line(name, round(rnorm(k, 0.2, spread) + rnorm(k, 0, sqrt(v)), 6), v, x)
}
hosts("three", 3, 0.1, 0.02)
hosts("three apart", 3, 0.6, c(0.01, 0.2))
hosts("four", 4, 0.05, c(0.01, 0.03))
hosts("five of one mind", 5, 0, 0.05)
hosts("ten", 10, 0.2, c(0.005, 0.02, 0.1))
hosts("ten of one mind", 10, 0, c(0.01, 0.02, 0.05))
hosts("forty", 40, 0.3, c(0.01, 0.02, 0.04, 0.3))
hosts("three hundred", 300, 0.15, c(0.01, 0.05, 0.2))
# Two hosts agree by chance, and are very sure: the likelihood has a second maximum at 0.
line("two maxima", c(0.10, 0.1005, 0.30, -0.10, 0.25), c(1e-6, 1e-6, 4e-4, 4e-4, 4e-4), c(1, 2, 4, 3, 6))
line("alike", c(0.1, 0.1, 0.1, 0.1), c(0.01, 0.01, 0.01, 0.01), c(1, 2, 3, 5))
