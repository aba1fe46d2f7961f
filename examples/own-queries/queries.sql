\set id random(1, 200000)
\set customer random(0, 999)
BEGIN;
SELECT sum(total) FROM orders WHERE customer = :customer;
UPDATE orders SET total = total + 1 WHERE id = :id;
COMMIT;
