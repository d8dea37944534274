-- S01, risingwave#2420: outer join keeps a key "matched" after its only match was deleted.
CREATE TABLE a (x int,y int);
CREATE TABLE b (x int,y int);
CREATE VIEW v AS select a.x ax, b.x bx from a full join b on a.x=b.x;
--! +b(3,3)
--= (NULL, 3)
--! -b(3,3)
--= empty
--! +a(3,3)
--= (3, NULL)
