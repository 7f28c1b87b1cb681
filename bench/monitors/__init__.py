"""Language-server monitors on real projects: do they refuse what is right, and what do models write under them?"""
