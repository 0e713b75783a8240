"""Several static models as one: vectors side by side, in one table, or in a smaller one."""
