-- S08, trickle-labs/pg-trickle#409: both join sides change in one step: second-order term lost, a group disappears.
CREATE TABLE dept (id int,nm TEXT);
CREATE TABLE emp (id int,d int);
CREATE VIEW v AS select d.nm,count(e.id) n from dept d left join emp e on e.d=d.id group by d.nm;
--! +dept(1,'Eng') +emp(1,1) +emp(2,1)
--= (Eng, 2)
--! -dept(1,'Eng') +dept(1,'RnD') -emp(2,1)
--= (RnD, 1)
