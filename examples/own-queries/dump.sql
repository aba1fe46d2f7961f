CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, total numeric NOT NULL, note text);
CREATE INDEX ON orders (customer);
INSERT INTO orders SELECT n, n % 1000, n % 97, repeat(md5(n::text), 8) FROM generate_series(1, 200000) AS n;
VACUUM ANALYZE orders;
